// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/ingot-metal/ingot/lab/server"
)

// errFinal reports an error that is not retried.
var errFinal = errors.New("kubeadm gives up")

// machine is the node that is installed on the disk of a server.
type machine struct {
	endpoint *endpoint
	cluster  *cluster
	node     string
	// os is the current boot, and bootID its ID.
	os     server.System
	bootID string
	// controlPlane nodes have an etcd member.
	controlPlane bool
	config       *kubeadmConfig
	version      string
}

// Boot is server.Config.System: it does what cloud-init, kubeadm and the kubelet do after the boot,
// until ctx ends with the power.
func (p *Plane) Boot(ctx context.Context, os server.System) {
	variables, err := instanceData(os.MetaData)
	if err != nil {
		os.Event("%v", err)
		return
	}
	instance := variables["instance_id"]
	if instance == "" {
		return
	}
	m, err := p.awaitMachine(ctx, instance, os, variables)
	if err != nil || m == nil {
		return
	}
	if err := p.power(ctx, m, true); err != nil {
		os.Event("kubelet: %v", err)
		return
	}
	os.Event("kubelet: node %s of %s runs", m.node, m.endpoint.address)
	p.reportUntil(ctx, m)
	// The power is off: the rest happens in the cluster.
	if err := p.power(context.WithoutCancel(ctx), m, false); err != nil {
		os.Event("node %s: %v", m.node, err)
	}
}

// reportUntil repeats the kubelet's report until ctx ends.
func (p *Plane) reportUntil(ctx context.Context, m *machine) {
	for p.cfg.Report > 0 && pause(ctx, p.cfg.Report) {
		p.mu.Lock()
		err := m.heartbeat(ctx)
		p.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			m.os.Event("kubelet: %v", err)
		}
	}
	<-ctx.Done()
}

// awaitMachine returns the machine of an instance that has booted before, or runs kubeadm until it
// succeeds or fails permanently. It returns nil if the user data does not run kubeadm.
func (p *Plane) awaitMachine(ctx context.Context, instance string, os server.System, variables map[string]string) (*machine, error) {
	p.mu.Lock()
	known := p.machines[instance]
	if known != nil {
		known.os = os
	}
	p.mu.Unlock()
	if known != nil || os.UserData == "" {
		return known, nil
	}
	s, err := parseUserData(os.UserData, variables)
	if errors.Is(err, errNoKubeadm) {
		return nil, nil
	}
	if err != nil {
		os.Event("cloud-init: %v", err)
		return nil, err
	}
	last := ""
	for {
		m, err := p.runKubeadm(ctx, s, os, variables)
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.machines[instance] = m
			os.Event("kubeadm %s: node %s of %s", s.command, m.node, m.endpoint.address)
			return m, nil
		}
		if text := err.Error(); text != last {
			last = text
			os.Event("kubeadm %s: %v", s.command, err)
		}
		if errors.Is(err, errFinal) || !pause(ctx, p.cfg.Retry) {
			return nil, err
		}
	}
}

// pause returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// runKubeadm simulates one run of kubeadm.
func (p *Plane) runKubeadm(ctx context.Context, s *script, os server.System, variables map[string]string) (*machine, error) {
	text, ok := s.files[s.config]
	if !ok {
		return nil, fmt.Errorf("%w: no file %s", errFinal, s.config)
	}
	config, err := parseKubeadm(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFinal, err)
	}
	m := &machine{
		os: os, config: config, controlPlane: s.command == "init" || config.ControlPlane != nil,
		node: strings.ToLower(cmp.Or(config.NodeRegistration.KubeletExtraArgs["hostname-override"],
			config.NodeRegistration.Name, variables["local_hostname"], os.Server)),
	}
	k := &keys{}
	if m.controlPlane {
		if k, err = s.readKeys(config.CertificatesDir); err != nil {
			return nil, fmt.Errorf("%w: %w", errFinal, err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := config.Discovery.BootstrapToken.APIServerEndpoint
	if s.command == "init" {
		name = config.ControlPlaneEndpoint
	}
	if m.endpoint, err = p.endpointOf(name); err != nil {
		return nil, err
	}
	if s.command == "init" {
		err = p.init(ctx, m, k)
	} else {
		err = p.join(ctx, m, k)
	}
	return m, err
}

// init simulates kubeadm init. The lock is held.
func (p *Plane) init(ctx context.Context, m *machine, k *keys) error {
	m.version = cmp.Or(m.os.Release, m.config.KubernetesVersion)
	if err := p.newCluster(m.endpoint, m.config, k, m.version); err != nil {
		return err
	}
	m.cluster = m.endpoint.cluster
	if err := m.upload(ctx); err != nil {
		return err
	}
	return m.becomeControlPlane(ctx)
}

// join simulates kubeadm join. The lock is held.
func (p *Plane) join(ctx context.Context, m *machine, k *keys) error {
	m.cluster = m.endpoint.cluster
	if m.cluster == nil || !m.cluster.serves() {
		return errors.New("the API server does not answer")
	}
	m.version = cmp.Or(m.os.Release, m.cluster.version)
	if err := m.cluster.admits(ctx, m.config); err != nil {
		return err
	}
	if err := m.checkName(ctx); err != nil {
		return err
	}
	if !m.controlPlane {
		return m.register(ctx)
	}
	if !k.ca.equal(m.cluster.ca) || !k.etcdCA.equal(m.cluster.etcdCA) {
		return fmt.Errorf("%w: the keys belong to another cluster", errFinal)
	}
	return m.becomeControlPlane(ctx)
}

// becomeControlPlane adds the node with its pods and its etcd member, which does not count until the
// kubelet starts it.
func (m *machine) becomeControlPlane(ctx context.Context) error {
	if err := m.register(ctx); err != nil {
		return err
	}
	if err := m.staticPods(ctx); err != nil {
		return err
	}
	return m.cluster.addMember(m.endpoint, m.node)
}

// power updates the cluster when a server powers on or off.
func (p *Plane) power(ctx context.Context, m *machine, on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		m.bootID = uuid.NewString()
	}
	if m.endpoint.cluster != m.cluster || p.endpoints[m.endpoint.address] != m.endpoint {
		return errors.New("its cluster no longer exists")
	}
	if member := m.cluster.members[etcdPrefix+m.node]; member != nil && m.controlPlane {
		member.up = on
	}
	if err := m.report(ctx, on); err != nil {
		return err
	}
	return m.cluster.settle(ctx, m.endpoint)
}

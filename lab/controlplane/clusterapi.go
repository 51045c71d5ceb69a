// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/clusterapi"
)

// toolTimeout bounds one run of kubectl or clusterctl.
const toolTimeout = 3 * time.Minute

// A provider is one of Cluster API's own and the ports of its manager.
type provider struct {
	clusterapi.Provider
	healthPort, diagnosticsPort, webhookPort int
}

// InstallClusterAPI installs Cluster API by "clusterctl init" and starts its
// three managers, webhooks on, as further children of this control plane. It
// returns when they answer. It may be called once.
//
// Infrastructure providers of other repositories are installed by the same
// "clusterctl init"; their managers and webhooks are the caller's business
// (ScaleToZero, RepointWebhooks).
//
// Where a cluster has services, here webhooks are reached by URL: after the
// installation the webhook configurations, and the conversion of the custom
// resource definitions, are pointed to loopback. Of cert-manager only its
// custom resource definitions are installed, which is what clusterctl asks
// for; one certificate made here serves all three managers.
func (c *ControlPlane) InstallClusterAPI(ctx context.Context, infrastructure ...clusterapi.Entry) error {
	if err := c.installClusterAPI(ctx, infrastructure); err != nil {
		return fmt.Errorf("install Cluster API: %w", err)
	}
	return nil
}

func (c *ControlPlane) installClusterAPI(ctx context.Context, infrastructure []clusterapi.Entry) error {
	var all []provider
	for _, p := range clusterapi.Providers() {
		all = append(all, provider{Provider: p})
	}
	ports, err := FreePorts(3 * len(all))
	if err != nil {
		return err
	}
	for i := range all {
		all[i].webhookPort, all[i].healthPort, all[i].diagnosticsPort = ports[3*i], ports[3*i+1], ports[3*i+2]
	}
	c.clusterctl, err = clusterapi.WriteRepository(ctx, c.tools, clusterapi.Repository{Dir: c.dir, Others: infrastructure})
	if err != nil {
		return err
	}
	if err := c.applyCertManagerCRDs(ctx); err != nil {
		return err
	}
	names := "-"
	if len(infrastructure) > 0 {
		names = ""
		for _, entry := range infrastructure {
			names = strings.TrimPrefix(names+","+entry.Name, ",")
		}
	}
	if _, err := c.Clusterctl(ctx, nil, "init", "--bootstrap=kubeadm", "--control-plane=kubeadm", "--infrastructure="+names); err != nil {
		return err
	}
	var services []WebhookService
	var namespaces []string
	for _, p := range all {
		namespaces = append(namespaces, p.Namespace)
		services = append(services, WebhookService{Namespace: p.Namespace, Name: p.Service, Port: p.webhookPort})
	}
	if err := c.RepointWebhooks(ctx, services...); err != nil {
		return err
	}
	if err := c.ScaleToZero(ctx, namespaces...); err != nil {
		return err
	}
	c.providers = all
	return c.startManagers(ctx)
}

// applyCertManagerCRDs installs cert-manager's kinds, without cert-manager.
func (c *ControlPlane) applyCertManagerCRDs(ctx context.Context) error {
	dir, err := c.tools.ModuleDir(ctx, "certmanager", "github.com/cert-manager/cert-manager")
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "deploy", "crds", "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no custom resource definitions in %s", dir)
	}
	var arguments []string
	for _, file := range files {
		arguments = append(arguments, "--filename="+file)
	}
	if _, err := c.Kubectl(ctx, append([]string{"apply", "--server-side"}, arguments...)...); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, arguments...)...)
	return err
}

// hookCallers are the managers that call runtime extensions.
var hookCallers = []string{"capi-core-manager", "capi-kubeadm-control-plane-manager"}

// startManagers starts the managers and waits until each, with its webhooks,
// is ready.
func (c *ControlPlane) startManagers(ctx context.Context) error {
	for _, p := range c.providers {
		env := []string{"POD_NAMESPACE=" + p.Namespace, "POD_NAME=" + p.Program, "POD_UID=" + p.Program}
		arguments := []string{
			"--kubeconfig=" + c.Kubeconfig(),
			"--leader-elect=false",
			"--webhook-port=" + strconv.Itoa(p.webhookPort),
			"--webhook-cert-dir=" + c.WebhookCertificates(),
			"--health-addr=" + loopback(p.healthPort),
			"--diagnostics-address=" + loopback(p.diagnosticsPort),
			"--insecure-diagnostics",
			// As CLUSTER_TOPOLOGY=true does where Pods run; off it is by default.
			"--feature-gates=" + strings.Join(c.gates, "=true,") + "=true",
		}
		if slices.Contains(hookCallers, p.Program) {
			arguments = append(arguments, c.proof...)
		}
		if err := c.run(p.Program, env, arguments...); err != nil {
			return err
		}
	}
	for _, p := range c.providers {
		if err := c.await(ctx, p.Program, ready("http://"+loopback(p.healthPort)+"/readyz")); err != nil {
			return err
		}
	}
	return nil
}

// ready returns a probe that succeeds when the URL answers 200.
func ready(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// onExit calls cancel as soon as one of the children ends, until the returned
// function is called.
func (c *ControlPlane) onExit(cancel func()) (stop func()) {
	stopped := make(chan struct{})
	var watchers sync.WaitGroup
	for _, p := range c.children {
		watchers.Go(func() {
			select {
			case <-p.Done():
				cancel()
			case <-stopped:
			}
		})
	}
	return func() {
		close(stopped)
		watchers.Wait()
	}
}

// Kubectl runs kubectl to its end, as administrator of this control plane, and
// returns its standard output; what it said on standard error is in the error.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	out, err := c.tool(ctx, "kubectl", nil, args...)
	return out.Stdout, err
}

// Clusterctl runs clusterctl to its end, as administrator of this control plane
// and with the repository of InstallClusterAPI. variables are its environment
// ("NAME=value").
func (c *ControlPlane) Clusterctl(ctx context.Context, variables []string, args ...string) (Output, error) {
	if c.clusterctl == "" {
		return Output{}, errors.New("clusterctl: Cluster API is not installed")
	}
	return c.tool(ctx, "clusterctl", variables, append(args, "--config="+c.clusterctl)...)
}

// Output is what a program wrote.
type Output struct{ Stdout, Stderr []byte }

// tool runs kubectl or clusterctl to its end against this control plane.
func (c *ControlPlane) tool(ctx context.Context, name string, variables []string, args ...string) (Output, error) {
	path, err := c.tools.Binary(name)
	if err != nil {
		return Output{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	stopWatching := c.onExit(cancel) // it would retry for minutes
	defer stopWatching()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "KUBECONFIG=" + c.Kubeconfig()}, variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	out := Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if err != nil {
		if exited := c.Err(); exited != nil {
			err = exited
		}
		return out, fmt.Errorf("%s %s: %w: %s", name, args[0], err, bytes.TrimSpace(out.Stderr))
	}
	return out, nil
}

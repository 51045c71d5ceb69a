// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/management"
)

// shortened are the waits of a manager in these tests, and what they are by
// default: an emulated server needs no rest, and a test no patience.
var shortened = []struct{ flag, value, normal string }{
	{"reset-interval", "1s", "30s"},
	{"power-poll", "2s", "1m"},
	{"agent-deadline", "15s", "15m"},
	{"soft-power-off", "10s", "2m"},
}

// ManagerOptions say how a manager is started.
type ManagerOptions struct {
	// Name tells managers apart.
	Name string
	// Address on the servers' network, with prefix length; empty: the site's boot
	// server.
	Address string
	// NoWebhooks leaves them to another manager.
	NoWebhooks bool
	// Witness sees every write to the API server; may be nil.
	Witness Witness
	// Delay is the most by which the manager's caches are late, by Seed.
	Delay time.Duration
	Seed  uint64
	// Direct leaves out the proxy before the API server: there is no Witness and no
	// Delay.
	Direct bool
	// Shorten divides all waits by one factor, instead of those in shortened; 0: it
	// does not; 1: the waits are as shipped.
	Shorten int
	// Args are further flags.
	Args []string
}

// A Manager is Ingot's manager as a process that can be killed at any moment, and
// is started again at once.
type Manager struct {
	options management.Manager
	ingot   *management.Ingot

	mu       sync.Mutex
	launched *management.Launched
	kills    int
	stopped  bool
	err      error
	restarts sync.WaitGroup
}

// StartManager starts a manager for the site, behind a proxy of its own. It ends
// with the test.
func (s *Site) StartManager(t *testing.T, o ManagerOptions) *Manager {
	t.Helper()
	if o.Witness == nil {
		o.Witness = bystander{}
	}
	if o.Address == "" {
		o.Address = s.bootAddress()
	}
	m := &Manager{ingot: s.plane.ingot, options: management.Manager{
		Name: s.Namespace + "-" + o.Name, Path: s.plane.program, NoWebhooks: o.NoWebhooks,
		Kubeconfig: s.kubeconfig(t, o),
		Args: []string{
			"manager", "--lab-uplink=" + s.DataCenter.Uplink(), "--lab-address=" + o.Address,
			"--namespace=" + s.Namespace, "--agent-key-dir=" + s.keys, "--loader-dir=" + s.loaders,
			"--agent-image-dir=" + s.agentImage, "--image-cache-dir=" + filepath.Join(s.dir, o.Name+"-images"),
			"--image-sources=127.0.0.0/8",
		},
	}}
	flags, text := shorten(t, o.Shorten)
	m.options.Args = append(append(m.options.Args, flags...), o.Args...)
	t.Logf("manager %s, waits shortened%s; flags %v", o.Name, text, o.Args)
	check(t, m.launch())
	t.Cleanup(m.Stop)
	s.managers = append(s.managers, m)
	check(t, m.Await(t.Context()))
	return m
}

// shorten are the flags by which a manager waits less, and what they do.
func shorten(t *testing.T, factor int) (flags []string, text string) {
	t.Helper()
	if factor > 0 {
		waits, err := app.DefaultOptions().Shorten(factor)
		check(t, err)
		for _, wait := range waits {
			text += "\n  " + wait.String()
		}
		return []string{fmt.Sprintf("--lab-shorten=%d", factor)}, fmt.Sprintf(" by %d:%s", factor, text)
	}
	for _, wait := range shortened {
		flags = append(flags, "--"+wait.flag+"="+wait.value)
		text += fmt.Sprintf(" %s %s→%s", wait.flag, wait.normal, wait.value)
	}
	return flags, ":" + text
}

// kubeconfig copies the manager's kubeconfig, with a proxy as server where one is
// wanted.
func (s *Site) kubeconfig(t *testing.T, o ManagerOptions) string {
	t.Helper()
	if o.Direct {
		return s.plane.ingot.Kubeconfig()
	}
	target, restConfig := s.plane.apiServer(t)
	transport, err := rest.TransportFor(&rest.Config{Host: restConfig.Host, TLSClientConfig: rest.TLSClientConfig{CAData: restConfig.CAData}})
	check(t, err)
	proxy := newProxy(t, proxyOptions{
		Target: target, Transport: transport, TLS: true, Describe: describeAPI, Witness: o.Witness, Delay: o.Delay, Seed: o.Seed,
	})
	config, err := clientcmd.LoadFromFile(s.plane.ingot.Kubeconfig())
	check(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthorityData = proxy.URL, certificatePEM(proxy.Certificate().Raw)
	}
	path := filepath.Join(s.dir, o.Name+".kubeconfig")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}

// launch starts a process. The lock is held, or no other goroutine has the manager yet.
func (m *Manager) launch() error {
	launched, err := m.ingot.LaunchManager(m.options)
	m.launched = launched
	return err
}

// Kill kills the process (SIGKILL) and starts another one. It returns when the
// process is gone; false: there was none to kill.
func (m *Manager) Kill() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped || m.launched == nil || m.launched.Process.Err() != nil {
		return false
	}
	m.launched.Process.Kill()
	m.launched = nil
	m.kills++
	m.restarts.Go(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.stopped {
			m.err = m.launch()
		}
	})
	return true
}

// Kills counts how often the process was killed.
func (m *Manager) Kills() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kills
}

// Stop ends the manager for good.
func (m *Manager) Stop() { m.StopWithin(10 * time.Second) }

// StopWithin ends the manager for good. It has so long to do so in order: to end
// its sessions with BMCs, for example.
func (m *Manager) StopWithin(grace time.Duration) {
	m.mu.Lock()
	m.stopped = true
	launched := m.launched
	m.mu.Unlock()
	m.restarts.Wait()
	if launched != nil {
		launched.Process.Stop(grace)
	}
}

// Err says whether the process has ended by itself.
func (m *Manager) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil || m.launched == nil || m.stopped {
		return m.err
	}
	return m.launched.Process.Err()
}

// Await waits until the manager is ready, also if it is killed meanwhile.
func (m *Manager) Await(ctx context.Context) error {
	for {
		m.mu.Lock()
		launched, kills := m.launched, m.kills
		m.mu.Unlock()
		if launched == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		err := launched.Await(ctx)
		if err == nil || ctx.Err() != nil || m.Kills() == kills {
			return err
		}
	}
}

// Log is what the manager has written, in all its lives.
func (m *Manager) Log(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(m.ingot.Log(m.options.Name))
	check(t, err)
	return text
}

// MetricsURL is where the present process shows its metrics.
func (m *Manager) MetricsURL() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.launched.Metrics
}

// bystander lets everything pass.
type bystander struct{}

func (bystander) Before(Write) bool     { return true }
func (bystander) After(Write, int) bool { return true }

// conflicts counts lost races: optimistic locks that failed on hosts and machines,
// and choices that were taken back.
type conflicts struct {
	mu               sync.Mutex
	refused, cleared int
}

// Before implements Witness.
func (*conflicts) Before(Write) bool { return true }

// After implements Witness.
func (c *conflicts) After(w Write, status int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case status == http.StatusConflict && (w.Resource == "ingothosts" || w.Resource == "ingotmachines"):
		c.refused++
	case w.ClearsIntent && status == http.StatusOK:
		c.cleared++
	}
	return true
}

// counts are the numbers so far.
func (c *conflicts) counts() (refused, cleared int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused, c.cleared
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/process"
)

const (
	kubeconfigFile        = "kubeconfig"
	managerKubeconfigFile = "kube-controller-manager.kubeconfig"

	// serviceRange is for cluster addresses of services, which nothing routes.
	serviceRange = "10.96.0.0/16"
	// advertiseAddress is from the documentation range TEST-NET-2 (RFC 5737):
	// the API server refuses to advertise loopback, and nothing here uses the
	// address.
	advertiseAddress = "198.51.100.1"

	// readyTimeout bounds each wait for something to become ready; on two busy
	// cores the API server takes up to 20 s.
	readyTimeout = 2 * time.Minute
	// stopGrace is the time a child has to end by itself. All state is thrown
	// away, so a kill afterwards costs nothing.
	stopGrace = 10 * time.Second
	// pollInterval is the pause between two looks at something awaited.
	pollInterval = 100 * time.Millisecond
)

// Options say where a control plane lives.
type Options struct {
	// Dir is the state directory. It is made if missing and must be empty.
	Dir string
	// Audit keeps an audit log of all requests, without bodies but for the API
	// groups in AuditBodies (AuditLog).
	Audit       bool
	AuditBodies []string
	// AdmissionPlugins of the API server that are on in addition to its defaults.
	AdmissionPlugins []string
	// FeatureGates of Cluster API's managers that are on besides ClusterTopology:
	// RuntimeSDK, InPlaceUpdates.
	FeatureGates []string
	// HookClientCert and HookClientKey are the files by which Cluster API's managers prove
	// themselves to runtime extensions; empty: they do not.
	HookClientCert, HookClientKey string
}

// A ControlPlane is a running management cluster. Its methods are safe for use
// by one goroutine at a time.
type ControlPlane struct {
	dir    string
	tools  *tools.Set
	config *rest.Config
	// webhookCA is the authority of the certificate in WebhookCertificates, PEM.
	webhookCA []byte
	// clusterctl is the path of its configuration; empty without Cluster API.
	clusterctl string
	gates      []string
	opts       Options
	// Ports on loopback.
	apiPort, etcdPort, peerPort, managerPort int
	// providers are Cluster API's own that were installed.
	providers []provider
	// proof are the arguments by which a manager that calls hooks proves itself.
	proof    []string
	children []*process.Process // in the order of their start
}

// Start starts etcd, kube-apiserver and kube-controller-manager and returns
// when all three work. An error wraps tools.ErrNotBuilt if their programs are
// missing, process.ErrExited if one of them ended. Ending ctx ends the start, not the
// running control plane: for that there is Stop.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	dir, err := emptyDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	set, err := tools.Open()
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{dir: dir, tools: set, opts: opts, gates: append([]string{"ClusterTopology"}, opts.FeatureGates...)}
	if opts.HookClientCert != "" {
		c.proof = []string{"--runtime-extension-client-cert-file=" + opts.HookClientCert, "--runtime-extension-client-key-file=" + opts.HookClientKey}
	}
	if err := c.start(ctx); err != nil {
		c.Stop()
		return nil, fmt.Errorf("start the control plane: %w", err)
	}
	return c, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig, which works
// from any shell of this machine while the control plane runs.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, kubeconfigFile) }

// RESTConfig returns the same for Go clients; the caller may change its copy.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Logs returns the directory with one log file for each process.
func (c *ControlPlane) Logs() string { return filepath.Join(c.dir, "log") }

// AuditLog returns the path of the audit log, for audit.Read; without
// Options.Audit there is none.
func (c *ControlPlane) AuditLog() string { return audit.File(c.dir) }

// Err returns an error that wraps process.ErrExited if a process has ended that should
// be running.
func (c *ControlPlane) Err() error {
	for _, p := range c.children {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Stop stops all processes and returns when all are gone, at the latest after
// thirty seconds. Stop may be called again.
//
// Clients go first, side by side, then their server, then etcd: the API server
// waits up to a minute for open watches, which the controller manager would hold,
// and etcd's end would leave it retrying.
func (c *ControlPlane) Stop() {
	servers := min(len(c.children), 2) // etcd and the API server are started first
	var clients sync.WaitGroup
	for _, p := range c.children[servers:] {
		clients.Go(func() { p.Stop(stopGrace) })
	}
	clients.Wait()
	for _, p := range slices.Backward(c.children[:servers]) {
		p.Stop(stopGrace)
	}
	c.children = nil
}

// emptyDir makes dir and returns its absolute path, or fails if it holds
// something: certificates of one life do not fit the etcd of another.
func emptyDir(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("start the control plane: no state directory given")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	entries, err := os.ReadDir(abs)
	if err != nil {
		return "", fmt.Errorf("state directory: %w", err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("state directory %s is not empty", abs)
	}
	return abs, nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	if err := c.takePorts(); err != nil {
		return err
	}
	if _, err := WritePKI(c.dir, "https://"+loopback(c.apiPort)); err != nil {
		return err
	}
	if err := c.writeWebhookCertificates(); err != nil {
		return err
	}
	return c.startServers(ctx)
}

func (c *ControlPlane) takePorts() error {
	ports, err := FreePorts(4)
	if err != nil {
		return err
	}
	c.apiPort, c.etcdPort, c.peerPort, c.managerPort = ports[0], ports[1], ports[2], ports[3]
	return nil
}

// startServers starts etcd, the API server and the controller manager on the keys and the
// data in the state directory, and returns when they work.
func (c *ControlPlane) startServers(ctx context.Context) error {
	var err error
	c.config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("read back the kubeconfig: %w", err)
	}
	if err := c.run("etcd", nil, EtcdArguments(c.dir, c.etcdPort, c.peerPort)...); err != nil {
		return err
	}
	apiserver := APIServer{Dir: c.dir, Bind: "127.0.0.1", Advertise: advertiseAddress, Port: c.apiPort, EtcdPort: c.etcdPort}
	// Nothing looks for the API server by its advertised address.
	arguments := append(apiserver.Arguments(), "--endpoint-reconciler-type=none")
	if len(c.opts.AdmissionPlugins) > 0 {
		arguments = append(arguments, "--enable-admission-plugins="+strings.Join(c.opts.AdmissionPlugins, ","))
	}
	if c.opts.Audit {
		kept, err := audit.Arguments(c.dir, c.opts.AuditBodies...)
		if err != nil {
			return err
		}
		arguments = append(arguments, kept...)
	}
	if err := c.run("kube-apiserver", nil, arguments...); err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	if err := c.await(ctx, "the API server", func(ctx context.Context) error {
		return clients.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}); err != nil {
		return err
	}
	if err := c.run("kube-controller-manager", nil, ManagerArguments(c.dir, c.managerPort)...); err != nil {
		return err
	}
	return c.await(ctx, "the controller manager", func(ctx context.Context) error {
		// It makes this object, so it is at work.
		_, err := clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// run starts one of the tools as a child of this control plane.
func (c *ControlPlane) run(name string, env []string, args ...string) error {
	path, err := c.tools.Binary(name)
	if err != nil {
		return err
	}
	p, err := process.Start(process.Command{
		Path: path, Args: args, Env: env, Dir: c.dir,
		Log: filepath.Join(c.Logs(), name+".log"),
	})
	if err != nil {
		return err
	}
	c.children = append(c.children, p)
	return nil
}

// await polls until probe succeeds. It fails when ctx ends, after readyTimeout,
// or as soon as a child has ended, and names what was awaited.
func (c *ControlPlane) await(ctx context.Context, what string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := probe(ctx)
		if err == nil {
			return nil
		}
		if exited := c.Err(); exited != nil {
			return fmt.Errorf("wait for %s: %w", what, exited)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w; last: %w", what, ctx.Err(), err)
		case <-tick.C:
		}
	}
}

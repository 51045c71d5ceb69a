// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/process"
)

// Config describes a node. The zero value is a node with the images of Cluster API and cert-manager.
type Config struct {
	// Name is the Node's name; default "management". Nodes of one machine may have the same name.
	Name string
	// Archives are OCI archives with further images for pods. They are imported before the first pod
	// starts, because nothing can be pulled.
	Archives []string
	// Audit enables the API server's audit log. AuditBodies are API groups whose requests are logged
	// with their bodies.
	Audit       bool
	AuditBodies []string
}

// Node is a running cluster with one node. Its methods are safe for concurrent use, except Close.
type Node struct {
	config  Config
	dir     string
	tools   *tools.Set
	sandbox *sandbox
	link    *link
	cgroups *cgroups
	rest    *rest.Config
	clients *kubernetes.Clientset

	mu       sync.Mutex
	children []*process.Process // in the order of their start
}

// Start starts a node and returns when it is Ready. It returns tools.ErrNotBuilt if a program of
// hack/tools is missing, and process.ErrExited if a component ended. The end of ctx aborts the start
// but does not stop a running node; use Close.
func Start(ctx context.Context, config Config) (*Node, error) {
	if config.Name == "" {
		config.Name = "management"
	}
	if os.Getuid() != 0 {
		return nil, errors.New("start a node: root is required")
	}
	set, err := tools.Open()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ingot-node-")
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	n := &Node{config: config, dir: dir, tools: set}
	if err := n.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start a node: %w", err), n.Close())
	}
	return n, nil
}

// Kubeconfig returns the path of the administrator's kubeconfig, which works on this machine while the
// node runs.
func (n *Node) Kubeconfig() string { return filepath.Join(n.dir, "kubeconfig") }

// RESTConfig returns a copy of the administrator's client configuration.
func (n *Node) RESTConfig() *rest.Config { return rest.CopyConfig(n.rest) }

// Dir returns the state directory, which Close removes.
func (n *Node) Dir() string { return n.dir }

// LogDir returns the directory with one log file for each process.
func (n *Node) LogDir() string { return filepath.Join(n.dir, logDir) }

// AuditLog returns the path of the audit log, if it is enabled.
func (n *Node) AuditLog() string { return audit.File(n.dir) }

// Address returns the node's address, at which this machine reaches the API server (port 6443) and
// host-network pods.
func (n *Node) Address() netip.Addr { return n.link.node.Addr() }

// HostAddress returns this machine's address in the node's network, which pods can reach.
func (n *Node) HostAddress() netip.Addr { return n.link.host.Addr() }

// NetNS returns the path of the network namespace of the running node.
func (n *Node) NetNS() string { return n.sandbox.namespace("net") }

// Err returns an error that wraps process.ErrExited if a component has ended unexpectedly.
func (n *Node) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.children {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return nil
}

// Close stops the node at once and returns when everything is removed. The error names what is left.
// Close may be called again.
func (n *Node) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	var errs []error
	if n.sandbox != nil {
		errs = append(errs, n.sandbox.close())
	}
	for _, p := range slices.Backward(n.children) {
		p.Stop(5 * time.Second) // its processes in the sandbox have ended
	}
	if n.link != nil {
		errs = append(errs, n.link.close())
	}
	if n.cgroups != nil {
		errs = append(errs, n.cgroups.remove(ctx))
	}
	errs = append(errs, os.RemoveAll(n.dir))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the node: %w", err)
	}
	return nil
}

func (n *Node) start(ctx context.Context) error {
	pause, err := n.tools.Binary("pause")
	if err != nil {
		return err
	}
	images, err := baseImages(n.tools)
	if err != nil {
		return err
	}
	if n.sandbox, err = newSandbox(ctx, n.dir, pause); err != nil {
		return err
	}
	if n.link, err = newLink(n.sandbox); err != nil {
		return err
	}
	if n.cgroups, err = newCgroups(n.link.name); err != nil {
		return err
	}
	if err := n.writeFiles(); err != nil {
		return err
	}
	if n.rest, err = clientcmd.BuildConfigFromFlags("", n.Kubeconfig()); err != nil {
		return fmt.Errorf("read back the kubeconfig: %w", err)
	}
	n.rest.QPS = -1 // the API server has its own rate limits
	if n.clients, err = kubernetes.NewForConfig(n.rest); err != nil {
		return err
	}
	return n.startCluster(ctx, append([]string{images}, n.config.Archives...))
}

// writeFiles writes keys and configuration.
func (n *Node) writeFiles() error {
	address := n.Address()
	if err := writeKeys(n.dir, "https://"+netip.AddrPortFrom(address, apiPort).String(), n.config.Name, address.AsSlice()); err != nil {
		return err
	}
	capable, err := mayRaiseOOMScore()
	if err != nil {
		return err
	}
	s := settings{
		Dir: n.dir, Name: n.config.Name, CgroupRoot: "/" + n.link.name,
		Plugins: pluginDir, PauseImage: pauseImage, NameServer: nameServer, KeepOOMScore: !capable,
	}
	if s.Shim, err = n.tools.Binary("containerd-shim-runc-v2"); err != nil {
		return err
	}
	if s.Runc, err = findProgram("runc"); err != nil {
		return err
	}
	return s.write()
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/process"
)

// The usual ports: each node has its own network.
const (
	apiPort      = 6443
	etcdPort     = 2379
	etcdPeerPort = 2380
	managerPort  = 10257
)

// pluginDir is the directory of Debian's containernetworking-plugins.
const pluginDir = "/usr/lib/cni"

// startCluster starts all programs, imports the archives and waits until the Node is Ready. The import
// runs concurrently, because it takes as long as the rest.
func (n *Node) startCluster(ctx context.Context, archives []string) error {
	apiserver, err := n.apiserverArguments()
	if err != nil {
		return err
	}
	if err := n.run("etcd", controlplane.EtcdArguments(n.dir, etcdPort, etcdPeerPort)...); err != nil {
		return err
	}
	if err := n.run("kube-apiserver", apiserver...); err != nil {
		return err
	}
	if err := n.run("containerd", "--config="+n.file("containerd.toml")); err != nil {
		return err
	}
	parts, partsContext := errgroup.WithContext(ctx)
	parts.Go(func() error { return n.Import(partsContext, archives...) })
	parts.Go(func() error {
		err := poll(partsContext, "the API server", n.Err, func(ctx context.Context) error {
			return n.clients.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		})
		if err != nil {
			return err
		}
		if err := n.startOthers(); err != nil {
			return err
		}
		return poll(partsContext, "the node to be Ready", n.Err, n.ready)
	})
	return parts.Wait()
}

// startOthers starts the programs that need an API server.
func (n *Node) startOthers() error {
	scheduler := n.file(schedulerKubeconfig)
	for name, arguments := range map[string][]string{
		"kube-controller-manager": controlplane.ManagerArguments(n.dir, managerPort),
		"kube-scheduler": {
			"--kubeconfig=" + scheduler, "--authentication-kubeconfig=" + scheduler, "--authorization-kubeconfig=" + scheduler,
			"--bind-address=127.0.0.1", "--leader-elect=false",
		},
		"kubelet": {
			"--config=" + n.file("kubelet.yaml"), "--kubeconfig=" + n.file(kubeletKubeconfig), "--root-dir=" + n.file("kubelet"),
			"--cert-dir=" + n.file("kubelet-pki"), "--hostname-override=" + n.config.Name, "--node-ip=" + n.Address().String(),
		},
		"kube-proxy": {"--config=" + n.file("kube-proxy.yaml")},
		"coredns":    {"-conf=" + n.file("Corefile")},
	} {
		if err := n.run(name, arguments...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) apiserverArguments() ([]string, error) {
	arguments := controlplane.APIServer{
		Dir: n.dir, Bind: "0.0.0.0", Advertise: n.Address().String(), Port: apiPort, EtcdPort: etcdPort,
	}.Arguments()
	client := n.file(filepath.Join("pki", kubeletClient))
	arguments = append(arguments,
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--kubelet-client-certificate="+client+".crt", "--kubelet-client-key="+client+".key",
		"--kubelet-preferred-address-types=InternalIP",
		// There are no aggregated API servers and no such certificate, but without these flags clients
		// of the configuration complain.
		"--requestheader-client-ca-file="+n.file("pki/ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
	)
	if !n.config.Audit {
		return arguments, nil
	}
	more, err := audit.Arguments(n.dir, n.config.AuditBodies...)
	return append(arguments, more...), err
}

func (n *Node) file(name string) string { return filepath.Join(n.dir, name) }

// run starts a tool in the sandbox.
func (n *Node) run(name string, arguments ...string) error {
	path, err := n.tools.Binary(name)
	if err != nil {
		return err
	}
	command, err := n.sandbox.command(process.Command{
		Path: path, Args: arguments, Dir: n.dir, Log: filepath.Join(n.LogDir(), name+".log"),
	})
	if err != nil {
		return err
	}
	p, err := process.Start(command)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.children = append(n.children, p)
	return nil
}

// ready returns nil if the Node is Ready and the default service account exists.
func (n *Node) ready(ctx context.Context) error {
	node, err := n.clients.CoreV1().Nodes().Get(ctx, n.config.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("node %s is not ready: %s", node.Name, condition.Message)
		}
	}
	if len(node.Status.Conditions) == 0 {
		return errors.New("the kubelet has not reported yet")
	}
	_, err = n.clients.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

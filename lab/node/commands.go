// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/controlplane"
)

// Tool is one run of kubectl or clusterctl, outside of the node.
type Tool struct {
	Arguments []string
	// Env adds environment variables, as NAME=value, for example for templates. Only PATH is
	// inherited.
	Env []string
	// Input is the standard input.
	Input []byte
	// Progress receives the tool's standard error while the tool runs; may be nil. Errors contain it
	// anyway.
	Progress io.Writer
}

// Kubectl runs kubectl as administrator and returns its standard output.
func (n *Node) Kubectl(ctx context.Context, arguments ...string) ([]byte, error) {
	out, err := n.Run(ctx, "kubectl", Tool{Arguments: arguments})
	return out.Stdout, err
}

// Clusterctl runs clusterctl as administrator with the repository of Init. variables are its
// environment ("NAME=value").
func (n *Node) Clusterctl(ctx context.Context, variables []string, arguments ...string) (controlplane.Output, error) {
	return n.Run(ctx, "clusterctl", Tool{Arguments: append(arguments, "--config="+n.file("clusterctl.yaml")), Env: variables})
}

// Run runs a program of hack/tools with the administrator's kubeconfig and returns its output, even if
// it failed.
func (n *Node) Run(ctx context.Context, name string, t Tool) (controlplane.Output, error) {
	path, err := n.tools.Binary(name)
	if err != nil {
		return controlplane.Output{}, err
	}
	cmd := exec.CommandContext(ctx, path, t.Arguments...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "KUBECONFIG=" + n.Kubeconfig()}, t.Env...)
	cmd.Stdin = bytes.NewReader(t.Input)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if t.Progress != nil {
		cmd.Stderr = io.MultiWriter(&stderr, t.Progress)
	}
	err = cmd.Run()
	out := controlplane.Output{Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
	if err != nil {
		if exited := n.Err(); exited != nil {
			err = errors.Join(err, exited)
		}
		return out, fmt.Errorf("%s %q: %w: %s", name, t.Arguments, err, bytes.TrimSpace(out.Stderr))
	}
	return out, nil
}

// Logs returns the log of a pod's only container.
func (n *Node) Logs(ctx context.Context, namespace, pod string) ([]byte, error) {
	logs, err := n.clients.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("logs of pod %s/%s: %w", namespace, pod, err)
	}
	return logs, nil
}

// Init configures the installation in addition to cert-manager and Cluster API.
type Init struct {
	// Others are providers outside of Cluster API.
	Others []clusterapi.Entry
	// Arguments of "clusterctl init", such as those for the Others. Without arguments, there is no
	// infrastructure provider.
	Arguments []string
	// Env are the variables of the providers' manifests, as NAME=value.
	Env []string
	// Progress receives clusterctl's standard error; may be nil.
	Progress io.Writer
}

// Init installs cert-manager, Cluster API with its kubeadm providers, and the additions of i with
// "clusterctl init --wait-providers". It returns when every Deployment is available. Two goroutines
// write to Progress.
func (n *Node) Init(ctx context.Context, i Init) error {
	certManager, err := n.writeCertManager(ctx)
	if err != nil {
		return err
	}
	config, err := clusterapi.WriteRepository(ctx, n.tools, clusterapi.Repository{Dir: n.dir, CertManager: certManager, Others: i.Others})
	if err != nil {
		return err
	}
	arguments := []string{"init", "--config=" + config, "--bootstrap=kubeadm", "--control-plane=kubeadm", "--wait-providers"}
	if len(i.Arguments) == 0 {
		arguments = append(arguments, "--infrastructure=-")
	}
	watched, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	watcher.Go(func() { n.restartStuckInjector(watched, i.Progress) })
	defer watcher.Wait()
	defer stop()
	_, err = n.Run(ctx, "clusterctl", Tool{Arguments: append(arguments, i.Arguments...), Env: i.Env, Progress: i.Progress})
	return err
}

// writeCertManager renders the released manifests of cert-manager from the chart in its module.
func (n *Node) writeCertManager(ctx context.Context) (clusterapi.CertManager, error) {
	var none clusterapi.CertManager
	module, err := n.tools.ModuleDir(ctx, certManagerGroup, certManagerModule)
	if err != nil {
		return none, err
	}
	version, err := n.tools.Version(certManagerGroup, certManagerModule)
	if err != nil {
		return none, err
	}
	kubernetes, err := n.tools.Version("kube", "k8s.io/kubernetes")
	if err != nil {
		return none, err
	}
	manifest, err := n.Run(ctx, "cert-manager-manifests", Tool{Arguments: []string{
		"-chart=" + filepath.Join(module, "deploy", "charts", "cert-manager"), "-version=" + version, "-kube-version=" + kubernetes,
	}})
	if err != nil {
		return none, err
	}
	path := n.file(filepath.Join("repository", "cert-manager", version, "cert-manager.yaml"))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return none, err
	}
	return clusterapi.CertManager{Manifest: path, Version: version}, os.WriteFile(path, manifest.Stdout, 0o644)
}

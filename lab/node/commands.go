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

// A Tool is one run of kubectl or clusterctl, outside of the node.
type Tool struct {
	Arguments []string
	// Env are more environment variables, as NAME=value: those of templates, for
	// example. Of the user's only PATH is passed on.
	Env []string
	// Input is given on standard input.
	Input []byte
	// Progress, if there is one, gets what the tool says on standard error while
	// it runs; it is in an error anyway.
	Progress io.Writer
}

// Kubectl runs kubectl to its end, as administrator, and returns its standard
// output.
func (n *Node) Kubectl(ctx context.Context, arguments ...string) ([]byte, error) {
	out, err := n.Run(ctx, "kubectl", Tool{Arguments: arguments})
	return out.Stdout, err
}

// Clusterctl runs clusterctl to its end, as administrator and with the repository
// that Init has written. variables are its environment ("NAME=value").
func (n *Node) Clusterctl(ctx context.Context, variables []string, arguments ...string) (controlplane.Output, error) {
	return n.Run(ctx, "clusterctl", Tool{Arguments: append(arguments, "--config="+n.clusterctlConfig()), Env: variables})
}

func (n *Node) clusterctlConfig() string { return n.file("clusterctl.yaml") }

// Run runs one of the programs of hack/tools to its end, with the kubeconfig of
// the administrator, and returns what it wrote, also when it failed.
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

// Logs returns what the containers of a pod have written so far.
func (n *Node) Logs(ctx context.Context, namespace, pod string) ([]byte, error) {
	logs, err := n.clients.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("logs of pod %s/%s: %w", namespace, pod, err)
	}
	return logs, nil
}

// Init says what clusterctl installs besides cert-manager and Cluster API.
type Init struct {
	// Others are providers that are not Cluster API's own.
	Others []clusterapi.Entry
	// Arguments are further ones of "clusterctl init", as those that name the
	// Others. Without any, there is no infrastructure provider.
	Arguments []string
	// Env are the variables of the providers' manifests, as NAME=value.
	Env []string
	// Progress, if there is one, gets what clusterctl says.
	Progress io.Writer
}

// Init installs cert-manager, Cluster API with its kubeadm providers, and what i
// adds, by "clusterctl init --wait-providers". It returns when every Deployment
// is available. Progress, if set, is written to by two goroutines.
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
	nursed, stop := context.WithCancel(ctx)
	var nurse sync.WaitGroup
	nurse.Go(func() { n.nurseCertManager(nursed, i.Progress) })
	defer nurse.Wait()
	defer stop()
	_, err = n.Run(ctx, "clusterctl", Tool{Arguments: append(arguments, i.Arguments...), Env: i.Env, Progress: i.Progress})
	return err
}

// writeCertManager writes cert-manager's manifests as released, rendered from
// the chart that its module carries.
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

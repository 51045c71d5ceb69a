// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kube is one multi-call binary of the Kubernetes programs that the
// tests and the demo need: etcd, kube-apiserver, kube-controller-manager,
// kubectl and kubeadm, chosen by the name it is called by or by its first
// argument. One link instead of five saves minutes and 400 MB on a fresh
// machine; a directory of symbolic links to it serves as KUBEBUILDER_ASSETS.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	kubeadm "k8s.io/kubernetes/cmd/kubeadm/app"
)

// programs maps the name of each cobra program to its constructor. etcd and
// kubeadm parse os.Args by themselves and are handled in run.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

func main() {
	if code, ok := run(filepath.Base(os.Args[0])); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		name := os.Args[1]
		os.Args = os.Args[1:]
		if code, ok := run(name); ok {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kube {etcd|kube-apiserver|kube-controller-manager|kubectl|kubeadm} [flags]")
	os.Exit(2)
}

// run executes the named program with os.Args; false if there is no such one.
func run(name string) (code int, ok bool) {
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
		return 0, true
	case "kubeadm":
		if err := kubeadm.Run(); err != nil { // kubeadm's own main prints it, and run does not
			fmt.Fprintln(os.Stderr, "error:", err)
			return 1, true
		}
		return 0, true
	}
	command, ok := programs[name]
	if !ok {
		return 0, false
	}
	return cli.Run(command()), true
}

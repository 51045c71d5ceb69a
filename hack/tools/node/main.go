// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command node is one multi-call binary of the Kubernetes programs that only a
// node needs: kube-scheduler, kubelet and kube-proxy, chosen by the name it is
// called by or by its first argument. They are not in the kube binary, because
// the everyday tests need none of them and should not wait for their build.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs maps the name of each program to its constructor.
var programs = map[string]func() *cobra.Command{
	"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":        func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"kube-proxy":     kubeproxy.NewProxyCommand,
}

func main() {
	newCommand, ok := programs[filepath.Base(os.Args[0])]
	if !ok && len(os.Args) > 1 {
		newCommand, ok = programs[os.Args[1]]
		os.Args = os.Args[1:]
	}
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: node {kube-scheduler|kubelet|kube-proxy} [flags]")
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manager runs Ingot's controllers, webhooks and agent API, the boot server, and the runtime
// extension, selected by --roles. "manager bmc" runs a command on a BMC.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/cmd/manager/bmccli"
)

// version is set at link time.
var version = "dev"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 && os.Args[1] == "bmc" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return bmccli.Run(ctx, os.Args[2:], app.NewDialer().Dial, bmccli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	}
	options := app.DefaultOptions()
	logs.InitLogs()
	options.AddFlags(pflag.CommandLine)
	pflag.Parse()
	if options.ShowVersion {
		fmt.Println(version)
		return nil
	}
	if options.PrintUnified {
		return app.PrintUnified(options, os.Stdout)
	}
	if err := logsv1.ValidateAndApply(options.Logs, nil); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	klog.InfoS("Starting the manager", "version", version, "roles", options.Roles)
	return app.Run(ctrl.SetupSignalHandler(), options, app.HostSockets)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cert-manager runs one of cert-manager's three programs, chosen by its
// first argument: webhook, cainjector or controller. cert-manager publishes its
// library as a Go module, but not its commands; these are the released
// controllers under a main function of ours, with the flags that the released
// manifests give.
//
// What a management cluster of Cluster API needs is here: issuers with a CA and
// self-signed ones, certificates, and the injection of their CA. ACME, Vault,
// Venafi and the shims for Ingress and Gateway are not.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	logf "github.com/cert-manager/cert-manager/pkg/logs"
)

// programs maps the first argument to what it runs until ctx ends.
var programs = map[string]func(ctx context.Context, flags *pflag.FlagSet, args []string) error{
	"webhook":    runWebhook,
	"cainjector": runCAInjector,
	"controller": runController,
}

func main() {
	var name string
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "usage: cert-manager {webhook|cainjector|controller} [flags]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := klog.Background()
	ctrl.SetLogger(log)
	logf.Log = log
	// The manifests carry flags for what is not here (ACME's solver image,
	// leader election of the one replica): they are accepted and ignored.
	flags := pflag.NewFlagSet(name, pflag.ExitOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	if err := run(logf.NewContext(ctx, log), flags, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager", name+":", err)
		os.Exit(1)
	}
}

// addVerbosity adds klog's -v, which two of the three do not bring themselves.
func addVerbosity(flags *pflag.FlagSet) {
	all := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(all)
	flags.AddGoFlag(all.Lookup("v"))
}

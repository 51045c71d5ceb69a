// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// runWebhook serves validation and defaulting of cert-manager's kinds, with a
// serving certificate that it issues to itself.
func runWebhook(ctx context.Context, flags *pflag.FlagSet, args []string) error {
	config, err := options.NewWebhookConfiguration()
	if err != nil {
		return fmt.Errorf("default configuration: %w", err)
	}
	options.AddConfigFlags(flags, config)
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := webhook.NewCertManagerWebhookServer(klog.FromContext(ctx), *config)
	if err != nil {
		return fmt.Errorf("set up the server: %w", err)
	}
	return server.Run(ctx)
}

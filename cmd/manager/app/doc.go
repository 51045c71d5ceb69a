// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app assembles Ingot's manager: it converts flags to options, and options to controllers,
// webhooks, the agent API and the boot server. It contains no decisions. The caller opens the
// sockets of the agent API and the boot server, so that the same program runs on the host's
// network, in a network namespace, or on a user-space network.
//
//	options := app.DefaultOptions()
//	options.AddFlags(pflag.CommandLine)
//	err := app.Run(ctx, options, app.HostSockets)
package app

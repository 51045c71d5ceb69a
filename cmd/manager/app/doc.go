// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package app wires Ingot's manager: flags to options, options to controllers,
// webhooks, agent API and boot server. It decides nothing. The sockets of the
// agent API and the boot server come from outside, so that the same program runs
// on the host's network, in a namespace, or on a network in user space.
//
//	options := app.DefaultOptions()
//	options.AddFlags(pflag.CommandLine)
//	err := app.Run(ctx, options, app.HostSockets)
package app

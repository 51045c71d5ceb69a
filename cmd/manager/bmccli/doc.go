// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmccli implements "manager bmc", which runs one command on one BMC with the manager's
// drivers and from the manager's network. It covers features without a field in IngotHost, such as
// the event log and the serial console, and BMCs that are not registered yet.
//
// These features are not API fields, because event logs are large and may contain passwords, and an
// indicator LED must light at once. A subcommand needs no second image: operators run it by
// "kubectl exec".
//
// The package does not know Kubernetes or hosts. Ingot notices the changes like any other change
// of a server.
//
//	err := bmccli.Run(ctx, os.Args[2:], dialer.Dial, bmccli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
package bmccli

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package byhand is what a person does at one BMC, with the manager's own drivers and
// from where the manager is: "manager bmc". It is there for what no host of the API has a
// field for, such as the event log and the serial console, and for a look at a BMC that is
// no host yet.
//
// It must not know Kubernetes, nor hosts: what is done here nobody decided on but the
// person, and Ingot learns of it as of anything else that happens to a server.
//
//	err := byhand.Run(ctx, os.Args[2:], dialer.Dial, byhand.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
package byhand

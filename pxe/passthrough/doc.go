// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passthrough carries the agents' TLS from the boot server to the manager,
// which has no place on the provisioning network, and tells it where a connection
// came from: by a PROXY protocol header (version 2) whose addresses are sealed with
// a key that only the two sides have. It looks at nothing that it carries, which is
// ciphertext but for what live systems ask for in clear, and knows neither hosts nor tokens.
//
//	f, err := passthrough.New(passthrough.Config{Upstream: "10.96.0.7:8843", Seal: keys.Seal})
//	err = f.Run(ctx, listener) // at the boot server
//
//	agents := passthrough.Listen(listener, passthrough.ListenConfig{Sealed: keys.Sealed}) // at the manager
package passthrough

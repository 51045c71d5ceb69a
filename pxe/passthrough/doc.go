// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package passthrough forwards the agents' TLS connections from the boot server to the manager,
// which is not on the provisioning network. The manager gets the original addresses in a PROXY
// protocol header (version 2), which is authenticated with a key that only the two sides have.
// The package does not inspect the connections, and knows neither hosts nor tokens. Only live
// systems send requests in clear text.
//
//	f, err := passthrough.New(passthrough.Config{Upstream: "10.96.0.7:8843", Seal: keys.Seal})
//	err = f.Run(ctx, listener) // at the boot server
//
//	agents := passthrough.Listen(listener, passthrough.ListenConfig{Sealed: keys.Sealed}) // at the manager
package passthrough

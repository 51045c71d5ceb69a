// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package endpoint is the network side of an emulated BMC: a TLS listener that can disappear and
// return on the same port, as when a BMC restarts, and a certificate that can change at run time.
//
//	ca, err := endpoint.NewAuthority()
//	e, err := endpoint.Start(endpoint.Config{Authority: ca, Handler: h})
//	e.Down() // connections break, new ones are refused
//	err = e.Up()
package endpoint

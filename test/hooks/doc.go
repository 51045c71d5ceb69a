// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hooks runs the runtime extension as it is shipped, by its role, below a real
// Cluster API with its feature gates on: discovery, variables, patches and lifecycle
// hooks over TLS. There are no servers and no manager: hosts are objects, as the
// manager would leave them. Every call goes through a recorder, which writes down what
// Cluster API asked and what Ingot answered. Cluster API proves itself to both by a client
// certificate, and nobody else is heard.
//
// What needs servers, an update in place, has a data center of test/site beside it.
//
//	site := hooks.Start(t)
//	site.Host(t, "h1", nil)
//	for _, call := range site.Calls() { … }
package hooks

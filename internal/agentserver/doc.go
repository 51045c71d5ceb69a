// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentserver serves the agent API: it lets an agent prove what it was booted
// for, gives it its order after a live read of the host, hands out bootstrap data
// at the end of an install, and acknowledges reports after the commit point (I4,
// I5, I14, I15). To a live system, which installs itself, it gives the data by an
// address that is good for one fetch: that fetch is the commit point then (I16).
//
// Every replica serves; each write goes by optimistic lock on the version that
// the check was made on, so that two replicas, or a replica with an old view, do
// no harm. Nothing here decides what a host needs next: that is the inventory's
// Next, which sees the results in the ledger.
//
//	server := agentserver.New(agentserver.Options{Client: c, Live: mgr.GetAPIReader(), Keys: keys, ...})
//	err := server.Serve(ctx, listener, certificate)
package agentserver

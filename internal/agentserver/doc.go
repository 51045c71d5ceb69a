// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentserver serves the agent API. An agent proves which host it was booted for, gets
// its order after a live read of the host, gets bootstrap data at the end of an install, and
// gets its report acknowledged after the commit point (I4, I5, I14, I15). A live system, which
// installs itself, gets the data from a URL that is valid for one fetch: that fetch is the commit
// point (I16).
//
// Every replica serves. Each write uses optimistic locking on the version that was checked, so
// that replicas with an old view do no harm. inventory/lifecycle decides what a host needs next.
//
//	server := agentserver.New(agentserver.Options{Client: c, Live: mgr.GetAPIReader(), Keys: keys, ...})
//	err := server.Serve(ctx, listener, certificate)
package agentserver

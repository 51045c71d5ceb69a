// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentapi holds the wire types between the agent that runs on a
// server and the manager that gives it orders. It knows the standard library
// only, so that both sides, and simulated servers, can share it.
//
// A boot carries no authority (I5): the agent opens a session with the token of
// its kernel command line and an ephemeral key (I14), asks for its order, works,
// asks for bootstrap data last (I15), reports, and acts on the acknowledgement
// (I4). All calls are POST with JSON bodies over TLS whose server key is pinned:
//
//	POST /agent/v1/session    SessionRequest   -> Session
//	POST /agent/v1/order      OrderRequest     -> Order
//	POST /agent/v1/progress   Progress         -> ProgressReply
//	POST /agent/v1/bootstrap  BootstrapRequest -> Bootstrap
//	POST /agent/v1/report     Report           -> Acknowledgement
//	POST /agent/v1/live       LiveRequest      -> LiveBoot      (before it starts a live system)
//	POST /agent/v1/booted     Booted           -> BootedReply   (the installed system)
//
// A live system, which installs itself, asks for its data by GET below PathLiveData.
//
// Every refusal is an Error with a stable reason. A call that got no answer is
// repeated as it is: each of them is idempotent for the same key. Progress is sent
// again and again while the work lasts, so that its answer can call the agent off or,
// with ReasonPaused, have it stop for as long as the host is paused.
package agentapi

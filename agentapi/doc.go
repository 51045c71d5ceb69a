// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentapi defines the wire types between the agent on a server and the manager. It
// uses only the standard library, so that the agent, the manager and simulated servers can
// share it.
//
// A boot has no authority (I5). The agent opens a session with the token from its kernel
// command line and an ephemeral key (I14), asks for its order, works, requests the bootstrap
// data last (I15), reports, and carries out the acknowledgement (I4). All calls are POST
// with JSON bodies over TLS with a pinned server key:
//
//	POST /agent/v1/session    SessionRequest   -> Session
//	POST /agent/v1/order      OrderRequest     -> Order
//	POST /agent/v1/progress   Progress         -> ProgressReply
//	POST /agent/v1/bootstrap  BootstrapRequest -> Bootstrap
//	POST /agent/v1/report     Report           -> Acknowledgement
//	POST /agent/v1/live       LiveRequest      -> LiveBoot      (before it starts a live system)
//	POST /agent/v1/booted     Booted           -> BootedReply   (the installed system)
//
// A live system, which installs itself, gets its data by GET below PathLiveData.
//
// Every refusal is an Error with a stable reason. All calls are idempotent for the same key,
// and the agent repeats a call without an answer unchanged. It sends Progress repeatedly, so
// that a reply can stop the work or, with ReasonPaused, suspend it while the host is paused.
package agentapi

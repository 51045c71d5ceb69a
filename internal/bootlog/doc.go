// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootlog keeps the last boots of each host in its status, for kubectl. Boot servers observe
// the boots and send finished ones to a manager in batches, authenticated with a shared key. A boot
// costs one write of the status, and another one when the agent's order ends.
//
// The log is for people: Ingot decides nothing by it, so that lost or forged boots do no harm.
//
//	recorder := &bootlog.Recorder{Client: c, Live: mgr.GetAPIReader(), Recorder: r}
//	tracker := pxebootlog.New(pxebootlog.Options{Deliver: recorder.Record})
package bootlog

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootlog keeps the last boots of each host in its status, where kubectl shows
// them. The boot servers see them, and write nothing: each hands boots that are over to
// a manager, in batches, by a request that is sealed with the key that the two share.
// A boot costs one write, and one more when the agent's order ends; a host at rest none.
//
// What is here is for people. Nothing is decided by it, and a boot that is lost, or
// made up by somebody with the key, changes nothing but what is shown.
//
//	recorder := &bootlog.Recorder{Client: c, Live: mgr.GetAPIReader(), Recorder: r}
//	tracker := pxebootlog.New(pxebootlog.Options{Deliver: recorder.Record})
package bootlog

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal is an emulated BMC's system event log: a LogService with its
// entries and ClearLog, below the system or the manager.
//
// It must not know what is logged: lab/bmc appends.
//
//	s := journal.New(p, time.Now)
//	s.Append("OK", "System powered on")
package journal

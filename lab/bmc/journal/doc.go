// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package journal is the system event log of an emulated BMC: a LogService with its entries and
// ClearLog, below the system or the manager. lab/bmc appends the entries.
//
//	s := journal.New(p, time.Now)
//	s.Append("OK", "System powered on")
package journal

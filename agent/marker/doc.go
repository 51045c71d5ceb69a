// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marker reads and writes the Ingot marker of a disk: the 4 KiB at
// agentapi.MarkerOffset that say which instance owns the bytes (I8).
//
// It knows the format only: who may overwrite whose marker is decided by the
// agent with the order at hand.
//
// The format is one line of text, so that a person can read it with dd, followed
// by zeroes. It fits into one sector of 512 bytes, which a disk writes whole or
// not at all:
//
//	ingot-marker-1 <sha256 of the JSON, 16 hex digits> {"instanceID":"…","attempt":1,"complete":true}\n
//
//	m, err := marker.Read(dev)
//	if errors.Is(err, marker.ErrDamaged) { … }
package marker

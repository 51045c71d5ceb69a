// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package marker reads and writes the Ingot marker of a disk: the 4 KiB at
// agentapi.MarkerOffset that name the instance that owns the disk's content (I8). The agent
// decides which markers may be overwritten.
//
// The format is one line of text, readable with dd, followed by zeroes. It fits into one
// sector of 512 bytes, which a disk writes atomically:
//
//	ingot-marker-1 <sha256 of the JSON, 16 hex digits> {"instanceID":"…","attempt":1,"complete":true}\n
//
//	m, err := marker.Read(dev)
//	if errors.Is(err, marker.ErrDamaged) { … }
package marker

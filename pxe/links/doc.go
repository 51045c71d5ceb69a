// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package links knows the interfaces of the machine, or of the network namespace
// that it was opened in: their names, hardware addresses and subnets, as they were
// some seconds ago. The servers that speak below or beside TCP learn from it where a
// packet came in.
//
// It must not know what is served where.
//
//	known, err := links.Open()
//	link := known.Get(index)
package links

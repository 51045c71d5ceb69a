// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware makes the IngotHardware that belongs to an IngotHost: it has
// the host's name and is owned by it, so that it goes and moves with the host (K45).
// And it lets those objects past --watch-filter, and tells whose an object is.
//
//	object, err := hardware.New(host, scheme)
package hardware

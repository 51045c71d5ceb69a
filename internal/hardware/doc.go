// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware creates the IngotHardware of an IngotHost, which has the host's name and owner
// reference, so that it is deleted and moved with the host (K45). It also implements --watch-filter.
//
//	object, err := hardware.New(host, scheme)
package hardware

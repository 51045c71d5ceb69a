// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package media is the virtual media of an emulated BMC, below the system or its manager. Depending on
// the vendor, a slot takes an image by an action, by a PATCH, or not at all. The package does not fetch
// images; the machine reads the content of the slots.
//
//	s := media.New(p)
//	slots := s.Slots()
package media

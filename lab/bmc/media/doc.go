// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package media is an emulated BMC's virtual media, below the system or its
// manager, with the ways in which makers take an image: an action, a PATCH, or not
// in every slot.
//
// It must not fetch the image: what is in a slot is told to whoever boots the
// machine.
//
//	s := media.New(p)
//	slots := s.Slots()
package media

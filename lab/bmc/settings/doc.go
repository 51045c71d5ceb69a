// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings is the firmware setup of an emulated server: the Bios resource with its attribute
// registry and settings object, and Secure Boot. Changes are pending until the next boot of the machine,
// which lab/bmc reports, as on real servers. With Dell's quirk they also need a job.
//
//	s := settings.New(settings.Config{Personality: p, Tasks: tasks, SetUEFI: setMode})
//	s.Booted()
package settings

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package settings is what the firmware setup of an emulated server shows: the
// Bios resource with its attribute registry and settings object, and Secure Boot.
// Changes are pending until the machine's next boot, as on real servers; with
// Dell's quirk they also wait for a job.
//
// It must not know the machine: lab/bmc tells it of boots, and is told of a new
// boot mode.
//
//	s := settings.New(settings.Config{Personality: p, Tasks: tasks, SetUEFI: setMode})
//	s.Booted()
package settings

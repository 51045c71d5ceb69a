// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware is what an emulated BMC shows of the server's parts:
// processors, memory, drives, and the chassis with fans, supplies and
// temperatures, in the old way (Thermal, Power) or the new (subsystems, Sensors).
// The health of each part can be set.
//
// It must not know the machine: everything here is told once, by its Config.
//
//	s := hardware.New(hardware.Config{Personality: p, Cores: 32, MemoryBytes: 256 << 30})
//	s.SetHealth("Fan 2", "Critical")
package hardware

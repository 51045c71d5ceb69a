// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware has the parts of the server that an emulated BMC shows: processors, memory, drives,
// and the chassis with fans, power supplies and temperatures, in the old form (Thermal, Power) or the
// new one (subsystems, Sensors). The parts come from Config; the health of each can be set.
//
//	s := hardware.New(hardware.Config{Personality: p, Cores: 32, MemoryBytes: 256 << 30})
//	s.SetHealth("Fan 2", "Critical")
package hardware

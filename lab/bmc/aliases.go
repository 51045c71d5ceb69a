// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import "github.com/ingot-metal/ingot/lab/bmc/machine"

// Aliases of package machine.
type (
	// Machine is the server behind a BMC.
	Machine = machine.Machine
	// Action is a power action.
	Action = machine.Action
	// Boot is the boot override of a machine, with its Target, Mode and Persistence.
	Boot        = machine.Boot
	Target      = machine.Target
	Mode        = machine.Mode
	Persistence = machine.Persistence
	// BootSetting keeps the override of a machine. Implementations of Machine embed it.
	BootSetting = machine.BootSetting
	// Bench is a Machine for tests.
	Bench = machine.Bench
)

// The actions.
const (
	On       = machine.On
	Off      = machine.Off
	Shutdown = machine.Shutdown
	Reset    = machine.Reset
	Reboot   = machine.Reboot
)

// The targets, modes and persistences of a boot override.
const (
	TargetNone    = machine.TargetNone
	TargetPXE     = machine.TargetPXE
	TargetDisk    = machine.TargetDisk
	TargetCD      = machine.TargetCD
	TargetLocalCD = machine.TargetLocalCD
	TargetHTTP    = machine.TargetHTTP
	TargetSetup   = machine.TargetSetup

	UEFI   = machine.UEFI
	Legacy = machine.Legacy

	Disabled   = machine.Disabled
	Once       = machine.Once
	Continuous = machine.Continuous
)

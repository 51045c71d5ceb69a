// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import "github.com/ingot-metal/ingot/lab/bmc/machine"

// The machine behind a BMC, see package machine.
type (
	// Machine is a server as its BMC sees it.
	Machine = machine.Machine
	// Action is what a BMC asks of the machine behind it.
	Action = machine.Action
	// Boot is the boot override of a machine, with its Target, Mode and Persistence.
	Boot        = machine.Boot
	Target      = machine.Target
	Mode        = machine.Mode
	Persistence = machine.Persistence
	// BootSetting keeps a machine's override; Machine implementations embed it.
	BootSetting = machine.BootSetting
	// Bench is a Machine that is nothing but a power switch.
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

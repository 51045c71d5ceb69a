// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boot is the part of the agent's /init around agent.Run: mounts, kernel modules, the
// boot NIC and its address, the clocks, and the final reboot or power-off. Only this package
// must be the first process of a machine.
//
// Every step prints one line on the console. The caller repeats a failed step, and the
// manager's deadline ends a boot that does not succeed.
//
//	console := boot.NewConsole(os.Stdout)
//	err := boot.Mounts()
//	modules, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
//	nic, err := boot.Network(ctx, boot.NetworkOptions{MAC: args.MAC, Servers: args.Servers, Settle: …, Log: console.Printf})
//	err = boot.End(agentapi.PowerOff)
package boot

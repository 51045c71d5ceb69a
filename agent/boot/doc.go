// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package boot is what the agent's /init does around agent.Run: mounts, kernel
// modules, the boot NIC and its address, the clocks, and the end by reboot or
// power-off. It is the only part that needs to be the first process of a machine.
//
// It knows no order and no session. Every step prints one line on the console and
// is repeated by its caller when it fails: a server that hangs silently is of no
// use to anybody, the manager's deadline ends it.
//
//	console := boot.NewConsole(os.Stdout)
//	err := boot.Mounts()
//	modules, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
//	nic, err := boot.Network(ctx, boot.NetworkOptions{MAC: args.MAC, Servers: args.Servers, Settle: …, Log: console.Printf})
//	err = boot.End(agentapi.PowerOff)
package boot

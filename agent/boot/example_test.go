// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package boot_test

import (
	"context"
	"os"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/boot"
	"github.com/ingot-metal/ingot/agent/kmod"
	"github.com/ingot-metal/ingot/agentapi"
)

// What /init does before and after the agent's work. It is compiled, and never run.
func Example() {
	console := boot.NewConsole(os.Stdout)
	if err := boot.Mounts(); err != nil {
		console.Printf("%v", err)
		return
	}
	modules, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
	if err != nil {
		console.Printf("%v", err)
		return
	}
	args, err := agent.ParseArguments("ingot.server=192.0.2.1:8843")
	if err != nil {
		console.Printf("%v", err)
		return
	}
	nic, err := boot.Network(context.Background(), boot.NetworkOptions{
		MAC: args.MAC, Servers: args.Servers, Log: console.Printf,
		Settle: func() {
			if _, err := modules.Settle(os.DirFS("/sys")); err != nil {
				console.Printf("%v", err)
			}
		},
	})
	if err != nil {
		console.Printf("%v", err)
	}
	_ = nic
	_ = boot.End(agentapi.PowerOff)
}

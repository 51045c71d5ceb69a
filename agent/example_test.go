// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"fmt"
	"os"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/boot"
)

// What /init does between its network and its end. It is compiled, and never run.
func Example() {
	args, err := agent.ParseArguments("ingot.server=192.0.2.1:8843 ingot.pin=… ingot.token=…")
	if err != nil {
		fmt.Println(err)
		return
	}
	identity, err := agent.NewIdentity()
	if err != nil {
		fmt.Println(err)
		return
	}
	action, err := agent.Run(context.Background(), agent.Config{
		Servers: args.Servers, Files: args.Files, Pins: args.Pins, Token: args.Token,
		Identity: identity, Probe: boot.Hardware, Disks: &boot.Disks{Root: os.DirFS("/")},
	})
	fmt.Println(action, err)
}

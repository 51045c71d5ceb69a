// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lab runs the demo in the virtual datacenter, and Ingot's manager on a user-space network.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/cmd/lab/demo"
	"github.com/ingot-metal/ingot/cmd/lab/labmanager"
)

func main() {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "Ingot's virtual datacenter",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(demo.Command(), labmanager.Command())
	if err := root.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

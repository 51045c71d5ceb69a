// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command printmanifest prints what installs package podnet's network plugin in a
// cluster whose pods have addresses in a network (POD_CIDR of the templates):
//
//	go run ./lab/podnet/printmanifest 10.244.0.0/16 | kubectl apply -f -
package main

import (
	"fmt"
	"os"

	"github.com/ingot-metal/ingot/lab/podnet"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: printmanifest NETWORK-OF-PODS")
		os.Exit(2)
	}
	manifest, err := podnet.Manifest(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "printmanifest:", err)
		os.Exit(1)
	}
	os.Stdout.Write(manifest)
}

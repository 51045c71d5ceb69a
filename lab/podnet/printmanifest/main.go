// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command printmanifest prints what installs package podnet's network plugin in a
// cluster whose pods have addresses in a network (POD_CIDR of the templates):
//
//	go run ./lab/podnet/printmanifest 10.244.0.0/16 | kubectl apply -f -
//
// With the API server's host and port as second argument it does not wait for
// kube-proxy.
package main

import (
	"fmt"
	"os"

	"github.com/ingot-metal/ingot/lab/podnet"
)

func main() {
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: printmanifest NETWORK-OF-PODS [HOST:PORT-OF-API-SERVER]")
		os.Exit(2)
	}
	endpoint := ""
	if len(os.Args) == 3 {
		endpoint = os.Args[2]
	}
	manifest, err := podnet.Manifest(os.Args[1], endpoint)
	if err != nil {
		fmt.Fprintln(os.Stderr, "printmanifest:", err)
		os.Exit(1)
	}
	os.Stdout.Write(manifest)
}

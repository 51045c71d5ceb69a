// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dns is CoreDNS with what a lab's cluster needs of it: the names of Services.
package main

import (
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"

	"github.com/coredns/coredns/coremain"
)

func main() { coremain.Run() }

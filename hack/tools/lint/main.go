// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command lint is golangci-lint with the Kubernetes API linter as a module plugin.
package main

import (
	"fmt"
	"os"

	"github.com/golangci/golangci-lint/v2/pkg/commands"
	"github.com/golangci/golangci-lint/v2/pkg/exitcodes"
	_ "sigs.k8s.io/kube-api-linter"
)

func main() {
	if err := commands.Execute(commands.BuildInfo{Version: "module"}); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(exitcodes.Failure)
	}
}

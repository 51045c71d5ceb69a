// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build builds the tools that tests, demo and code generation need
// and prints the directories they are in, one a line, on standard output.
//
//	go run ./hack/tools/build              build all
//	go run ./hack/tools/build gen kube     build some groups only
//	go run ./hack/tools/build -path NAME   print where one program is, build nothing
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ingot-metal/ingot/hack/tools"
)

func main() {
	path := flag.String("path", "", "print the path of this program and build nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *path, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "tools:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string, groups []string) error {
	set, err := tools.Open()
	if err != nil {
		return err
	}
	if path != "" {
		file, err := set.Binary(path)
		if err != nil {
			return err
		}
		fmt.Println(file)
		return nil
	}
	if err := set.Build(ctx, os.Stderr, groups...); err != nil {
		return err
	}
	dirs, err := set.Dirs()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		fmt.Println(dir)
	}
	return nil
}

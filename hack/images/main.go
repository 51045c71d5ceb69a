// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/ingot-metal/ingot/hack/debian"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	force := flags.Bool("force", false, "rebuild an image that is in the cache")
	kubernetes := flags.String("kubernetes", "", "Kubernetes version of a node image, such as v1.36.3")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: images [-force] [-kubernetes VERSION] agent|os|ignition|node")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	cache, err := debian.OpenCache()
	if err != nil {
		return err
	}
	cache.Force = *force
	switch flags.Arg(0) {
	case "agent":
		return buildAgentImage(ctx, cache)
	case "os":
		return buildTestImage(ctx, cache)
	case "ignition":
		return buildIgnitionImage(ctx, cache)
	case "node":
		return buildNodeImage(ctx, cache, *kubernetes)
	default:
		flags.Usage()
		return fmt.Errorf("unknown image %q", flags.Arg(0))
	}
}

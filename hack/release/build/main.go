// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command build writes a release: a clusterctl repository and the container
// image as an archive.
//
//	INGOT_VERSION=v0.1.0 go run ./hack/images agent
//	go run ./hack/release/build -version v0.1.0 -out dist
//	go run ./hack/release/build -version v0.1.0 -out dist -no-images
//	go run ./hack/release/build -version v0.1.0 -root /image   # files only, for the Dockerfile
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	start := time.Now()
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	var o release.Options
	flags.StringVar(&o.Version, "version", "", "version to release, for example v0.1.0")
	flags.StringVar(&o.Out, "out", "dist", "directory to write to")
	flags.StringVar(&o.Image, "image", release.DefaultImage, "repository of the image, without tag")
	flags.BoolVar(&o.NoImages, "no-images", false, "write manifests only")
	root := flags.String("root", "", "write only the files of the image, below this directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	set, err := tools.Open()
	if err != nil {
		return err
	}
	o.Root, o.Agent = set.Root(), o.Version
	if *root != "" {
		return release.WriteRoot(ctx, o, *root)
	}
	r, err := release.Write(ctx, o)
	if err != nil {
		return err
	}
	return report(r, time.Since(start))
}

// report lists the files with their sizes.
func report(r *release.Release, took time.Duration) error {
	for _, path := range append(r.Files(), r.Checksums) {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		fmt.Printf("%9.1f KiB  %s\n", float64(info.Size())/(1<<10), path)
	}
	abs, err := filepath.Abs(r.Components)
	if err != nil {
		return err
	}
	runtime, err := filepath.Abs(r.RuntimeComponents)
	if err != nil {
		return err
	}
	fmt.Printf("release: %s in %.0f s; the provider's url in clusterctl.yaml: %s\n", r.Image, took.Seconds(), abs)
	fmt.Printf("release: that of the runtime extension: %s\n", runtime)
	boot, err := filepath.Abs(r.BootComponents)
	if err != nil {
		return err
	}
	fmt.Printf("release: that of the boot servers: %s\n", boot)
	return nil
}

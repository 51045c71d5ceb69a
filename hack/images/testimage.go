// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/hack/debian"
)

// buildTestImage builds the image of a plain server for tests and demo.
func buildTestImage(ctx context.Context, c *debian.Cache) error {
	dir, err := buildSystem(ctx, c, "test", debian.Server)
	if err != nil {
		return err
	}
	report, err := debian.Report("test image", dir)
	fmt.Print(report)
	return err
}

// buildSystem builds a system, and returns the directory of the result.
func buildSystem(ctx context.Context, c *debian.Cache, kind string, recipe func() (debian.System, error)) (string, error) {
	if err := debian.NeedTools(ctx); err != nil {
		return "", err
	}
	sources, err := debian.Sources(ctx)
	if err != nil {
		return "", err
	}
	system, err := recipe()
	if err != nil {
		return "", err
	}
	key, err := system.Key(sources)
	if err != nil {
		return "", err
	}
	return c.Result(kind, key, func(dir string) error { return system.Build(ctx, sources, dir) })
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/hack/debian"
	"github.com/ingot-metal/ingot/hack/nodeimage"
)

// buildNodeImage builds the image of a node with a Kubernetes version.
func buildNodeImage(ctx context.Context, c *debian.Cache, version string) error {
	start := time.Now()
	dir, err := nodeimage.Build(ctx, c, version)
	if err != nil {
		return err
	}
	report, err := debian.Report("node image "+version, dir)
	fmt.Printf("%s%.0f s\n", report, time.Since(start).Seconds())
	return err
}

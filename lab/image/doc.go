// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image makes container images of static programs, without a container
// engine, and writes them as one OCI archive (OCI image specification 1.1,
// image-layout.md) that "ctr images import" reads.
//
// Layers are not compressed: the archive is read on the machine that wrote it.
//
//	err := image.WriteArchive(w, []image.Image{{
//		Name:       "registry.k8s.io/pause:3.10.2",
//		Files:      map[string]string{"/pause": "/path/of/the/program"},
//		Entrypoint: []string{"/pause"},
//	}})
package image

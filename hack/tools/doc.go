// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tools builds and finds the programs that Ingot's tests, demo and
// code generation run: etcd and the Kubernetes programs, the Cluster API
// managers, clusterctl and controller-gen; and on request what a real node
// needs, containerd and cert-manager, and the tools of etcd. Nothing is downloaded as a binary:
// each group of programs is a Go module below this directory, pinned by its
// own go.mod and go.sum, and is built from the module cache.
//
// A build lands in $INGOT_CACHE/tools/<group>-<version>-<hash>, where the hash
// covers everything that decides what is built (go.mod, go.sum, our own Go
// files, flags). So several versions live side by side, a changed pin builds
// anew, and a directory that exists is complete: builds happen in a temporary
// directory which is renamed at the end, under a file lock.
//
// The package uses the standard library only and must not know what the
// programs are used for.
//
//	set, err := tools.Open()
//	if err != nil { ... }
//	clusterctl, err := set.Binary("clusterctl") // ErrNotBuilt: run "make tools"
package tools

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tools builds and finds the programs for Ingot's tests, demo and code generation: etcd
// and the Kubernetes programs, the Cluster API managers, clusterctl and controller-gen; and on
// request the programs of a node, containerd, cert-manager, the etcd tools, and the programs that
// build the documentation. No binaries are downloaded: each group of programs is a Go module below
// this directory with its own go.mod and go.sum, and is built from the module cache.
//
// A build is in $INGOT_CACHE/tools/<group>-<version>-<hash>, where the hash covers all inputs
// (go.mod, go.sum, Ingot's Go files, flags). Several versions can coexist, and a changed pin
// causes a new build. A build runs in a temporary directory under a file lock, and is renamed when
// it is complete.
//
// The package uses only the standard library, and does not know the purpose of the programs.
//
//	set, err := tools.Open()
//	if err != nil { ... }
//	clusterctl, err := set.Binary("clusterctl") // ErrNotBuilt: run "make tools"
package tools

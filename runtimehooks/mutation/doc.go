// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutation implements the topology mutation hooks for the ClusterClass ingot-runtime:
// DiscoverVariables defines the variables, GeneratePatches applies them to Ingot's templates, and
// ValidateTopology checks the result.
//
// Each hook is a pure function of the request and, for GeneratePatches, of the image catalog. The
// package does not check capacity and does not know hosts: a topology without enough hosts is
// valid, and package lifecycle delays it.
//
//	handlers := mutation.Handlers(mutation.Options{Images: func(ctx context.Context) ([]infrav1.IngotImage, error) { … }})
package mutation

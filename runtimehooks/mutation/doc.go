// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package mutation answers the topology mutation hooks, for the ClusterClass
// ingot-runtime: which variables there are (DiscoverVariables), what they make of
// Ingot's templates (GeneratePatches), and whether the result can be what somebody
// meant (ValidateTopology).
//
// Each is a pure function of the request and, for GeneratePatches, of the image
// catalogue. Capacity is not looked at: a topology that cannot be built today is no
// wrong topology, and lifecycle holds it. The package must not know hosts.
//
//	handlers := mutation.Handlers(mutation.Options{Images: func(ctx context.Context) ([]infrav1.IngotImage, error) { … }})
package mutation

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move proves I10, twice.
//
// TestMove is fast: clusterctl's own object mover takes a namespace with
// hosts in every state from one API server to another, with the controllers of
// Ingot running at both, and no BMC hears a word from the pause of the Clusters
// until they are unpaused where they arrive.
//
// Clusters, Machines and Nodes are not real here: their objects say what clusterctl
// asks of them. It knows nothing of agents.
//
// TestMoveWithMetal is whole, and takes a quarter of an hour: clusterctl's command,
// two sites (test/site) on one world, agents that are cut off in the middle of a wipe
// and of an inspection, five minutes of silence, and back.
//
//	go test ./test/move
//	INGOT_FULL=1 go test -v -timeout 60m -run TestMoveWithMetal ./test/move
package move

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move proves I10: clusterctl's own object mover takes a namespace with
// hosts in every state from one API server to another, with the controllers of
// Ingot running at both, and no BMC hears a word from the pause of the Clusters
// until they are unpaused where they arrive.
//
// Clusters, Machines and Nodes are not real here: their objects say what clusterctl
// asks of them. It knows nothing of agents; that an agent stops writing is proved
// where the agent is.
//
//	go test ./test/move
package move

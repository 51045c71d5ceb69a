// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout shows what operators do with clusters after they are made, by
// Cluster API's own controllers on simulated servers (test/site): templates rotated
// and versions changed with and without a spare server, control planes scaled,
// machines that wait for a rack, servers that fail, and deletions in the middle of
// an installation. Racks are small, so that every machine must be sent where a host
// is for it: a failure domain offered or withheld wrongly stands still here (I11,
// decision 0064).
//
// Each scene has hosts and a namespace of its own, and all play at the same time.
// It decides nothing of what Ingot does, and measures nothing: the durations that
// it prints are for people.
//
//	INGOT_FULL=1 go test -timeout 120m -v ./test/rollout
//	INGOT_FULL=1 go test -timeout 120m -v -run TestScenes/surge ./test/rollout
package rollout

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulated_test

// manyServers is the scale that one process is expected to carry.
const manyServers = 50

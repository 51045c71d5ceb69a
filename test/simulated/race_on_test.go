// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build race

package simulated_test

// manyServers is smaller with the race detector, under which fifty network
// stacks on two cores lose packets to their own retransmission timers.
const manyServers = 12

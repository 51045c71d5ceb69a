// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e shows Ingot as an operator meets it: the release of this source
// tree, installed by a real clusterctl into a real cluster with pods (lab/node).
// The servers are simulated; they are on a network of their own with the boot
// server's Pod, and their BMCs are reached by the manager's.
//
// It needs root and runs with INGOT_E2E=1, as in "make e2e-clusterctl".
package e2e

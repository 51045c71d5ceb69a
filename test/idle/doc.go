// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idle looks at clusters that nobody touches: what Ingot writes and asks
// while nothing happens (nothing, and one question a host and minute), and that
// owner references and finalizers come back when somebody removes them, by the
// validators of Cluster API's own test framework. It takes no part in how clusters
// come up (test/site).
//
// The validators are made for Ginkgo and stop the program outside of it; they run
// in a suite of their own inside the test, which judges the rest when they are done.
// Ginkgo runs one suite in a process, so "go test -count=2" is refused.
//
// A crowd of hosts rests too, with BMCs in the test's process and no clusters.
//
//	INGOT_FULL=1 go test -timeout 60m -v ./test/idle # half an hour; prints what was counted
//	INGOT_REST_HOSTS=100 INGOT_REST_MINUTES=2 go test -timeout 60m -v -run Crowd ./test/idle
package idle

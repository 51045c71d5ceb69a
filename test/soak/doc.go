// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package soak lets many hosts live whole lives at once while the BMCs of a fifth
// of them fail in every way that lab/bmc and lab/ipmi know: faults come at random, by a seed
// that is printed; some pass, some stay. Machines are claimed and released
// meanwhile. In the end every host is in the right state, or in one whose reason
// names the cause (catalogue says which), and the manager has kept nothing: no
// session at any BMC, no goroutine, and less memory than its bound.
//
// A quarter of the BMCs speak IPMI alone.
//
// Everything is the real thing (etcd, API server, Ingot's manager as a process, the
// agent's code) but for the servers, which are simulated, and the controllers of
// Cluster API, whose objects the test makes by hand (test/lifecycle). All waits of the
// manager are shortened by one factor, which is printed with each of them. The
// package decides nothing of what Ingot does.
//
//	INGOT_STORM_HOSTS=30 go test -timeout 60m -v ./test/soak
//	INGOT_STORM_HOSTS=30 INGOT_STORM_SEED=7 go test -timeout 60m -v ./test/soak
//	INGOT_FULL=1 go test -timeout 90m -v ./test/soak   # 500 hosts
package soak

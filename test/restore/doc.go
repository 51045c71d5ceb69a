// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore is the restore drill of I21. A real etcd is saved while one host is in
// each state that Ingot knows. Then the world goes on: installs commit, releases end, and
// every server is in use, many by another tenant. Then etcd is restored, and API server,
// Cluster API and Ingot start again on it. The drill counts at the servers what was done to
// them: no disk that holds a complete system is written, and no server in use is switched.
// Every host ends in its phase, or under a condition that says what a person has to decide.
//
// The same is counted of a second management cluster, which is started on the same snapshot
// while the first one is at work.
//
// The drill decides nothing of what Ingot does. The table of states is in states_test.go.
//
//	make test-restore
package restore

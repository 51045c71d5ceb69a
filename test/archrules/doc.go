// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archrules holds the rules of who may import whom, and a test that walks
// "go list" and fails, with the reason, when an import runs the other way.
//
// There are four kinds of rule. Rooms: which of our own top-level directories
// a room may know. Homes: where a third-party library may be used; a library
// without a row is refused until somebody decides where it lives. Clean rooms:
// what must not link a Kubernetes client even through others. Unmaintained modules: what
// no program may link even through others.
//
// A row may be changed; the reason in it says what is lost. It must not know
// any package's content.
//
// Its tests also hold what is written to the tree: CONTRIBUTING.md names every directory,
// links lead somewhere, what comments name by a number (an invariant, a decision) is
// written down, and what "kubectl explain" shows names no such number.
//
//	err := archrules.Check("lab/bmc", archrules.Module+"/bmc/redfish", archrules.Production)
//	// lab/bmc must not import bmc/redfish: simulators never import the client they serve …
package archrules

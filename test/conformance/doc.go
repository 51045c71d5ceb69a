// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance is the list of all rules that a Cluster API provider keeps,
// and the proof that Ingot keeps them.
//
// A rule is a value: an identifier, our own short words, its source, and how it is
// kept. Rules that a machine can check have checks, which are pure functions: Check
// looks at Shipped, which is what a release holds and what the real clusterctl and
// a real API server make of it; Live looks at a Run, which is every version of
// every object, every request and every write to a BMC of a real run with Cluster
// API's own controllers. Rules that only documents can keep name the section that
// keeps them.
//
// A check that cannot fail proves nothing. So each one comes with the evidence
// broken: Break and BreakRun change a copy of good evidence so that this one rule
// does not hold, and a test demands that exactly this rule's check fails on it.
//
// A mutant of Go code is a replacement built with "go test -overlay". A copy of the source tree would
// compile all packages again, and test hooks in the product would be shipped.
//
// The package must not know how Ingot works inside: it sees only what a user, the
// API server or a BMC sees.
//
//	for _, rule := range conformance.Rules() {
//		if rule.Check != nil {
//			fmt.Println(rule.ID, rule.Check(shipped))
//		}
//	}
//
// "make conformance" prints one line for each rule, and a table by document. The
// part that needs no run of Cluster API's controllers is in "make test".
package conformance

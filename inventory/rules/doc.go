// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules evaluates decision tables: the first rule whose conditions all hold decides.
// Packages lifecycle and remediation write their decisions as such tables, so that tests can
// remove each rule and each condition and require that a test fails (see Mutants).
//
//	decision, rule, decided := rules.Table[int, string]{
//		{Name: "negative", When: []func(int) bool{isNegative}, Then: explainNegative},
//	}.Decide(-1)
package rules

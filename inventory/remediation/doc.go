// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remediation decides what to do about an unhealthy Machine: a power cycle of its host,
// or a replacement by its owner. Decide takes the IngotRemediation and one observation of the
// Machine, its host and its Node. The package is pure: it knows no Kubernetes client, no network
// and no clock, and changes none of its arguments.
//
//	decision := remediation.Decide(object, observation)
//	switch step := decision.Step.(type) {
//	case remediation.SaveLedger:
//		// write step.Ledger to the host
//	...
//	}
package remediation

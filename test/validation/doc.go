// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation proves what Ingot's API refuses, and with which words: a
// table of invalid input, testdata/*.cases, is sent to a real API server that has
// our custom resource definitions, webhooks and conversion. Every refusal must
// name the field, its value (unless that may be a secret) and a remedy.
//
// A walk over the OpenAPI schemas fails on any field of a spec that has neither
// an invalid case nor a reason in testdata/reasons.yaml, so that a field cannot
// be added without saying what is wrong in it.
//
// A case stands in the file of its kind; input above, expected answer below:
//
//	=== bmc-address-scheme
//	field: spec.bmc.address
//	set: {spec.bmc.address: "https://10.0.0.9"}
//	--- refused
//	spec.bmc.address: Invalid value: "https://10.0.0.9": must be redfish://…
//
// go test ./test/validation -update writes the answers anew; read the difference.
// The package holds tests only.
package validation

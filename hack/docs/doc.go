// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command docs writes the generated pages of docs/book/reference:
//
//	go run ./hack/docs
//
//	reasons.md      the reasons of api/v1beta2, agent and agentapi, by category
//	annotations.md  the annotations and labels of api/v1beta2
//	metrics.md      the ingot_… metrics, from the calls that create them
//	flags.md        the flags of cmd/manager, and the agent's kernel arguments
//
// Page api.md is the output of crd-ref-docs with the configuration and templates in hack/docs/api.
//
// The pages show the comments of the constants. A line of a comment that starts with "+ingot:" is
// a marker. A line after a marker continues it.
//
//	// ReasonBMCUnreachable: Ingot cannot connect to the BMC.
//	// +ingot:category=BMC
//	// +ingot:remedy=Check spec.bmc.address and the network between the
//	// manager and the BMC.
//
// The comment of a reason must have a text and these two markers; the remedy of a reason that
// reports success is "None." The markers of an annotation or a label are +ingot:on, the kinds of
// its objects, +ingot:value, and +ingot:by: operator or Ingot, who sets it.
//
// make generate runs the command. A test fails if a page is stale.
package main

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation decides which host is whose: which of the free ones a machine gets
// (Select), which are kept for the machines that a Cluster was promised (PlanPromise,
// Outstanding), in which failure domains a control plane would find one (FailureDomains),
// and how large the smallest is that a template can get (TemplateCapacity). A Shelf keeps
// hosts sorted for questions that come often. Values in, decisions out, as in inventory,
// which says of one host alone whether it could be had.
package allocation

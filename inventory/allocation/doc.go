// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allocation decides which machine gets which host:
//
//   - Select chooses a host for one machine.
//   - PlanReservation and Outstanding decide which hosts are kept for the machines of a Cluster.
//   - FailureDomains lists the failure domains in which a control plane would get a host.
//   - TemplateCapacity returns the capacity of the smallest host that a template can get.
//
// The functions are pure: they read values and return decisions. Package inventory decides
// whether a single host is available.
package allocation

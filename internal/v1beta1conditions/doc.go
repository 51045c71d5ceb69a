// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1conditions computes what only contract v1beta1 knows, status.conditions
// with a severity, from the conditions that the controllers set. The hub keeps the
// result under status.deprecated.v1beta1, and the spoke shows it.
//
// It is pure: no client, no clock. A reconciler calls it last, before it saves its
// status, so that both forms are always of one write:
//
//	machine.SetV1Beta1Conditions(v1beta1conditions.Conditions(machine.Status.Conditions))
package v1beta1conditions

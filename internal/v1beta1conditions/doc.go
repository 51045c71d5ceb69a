// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1beta1conditions converts conditions to the form of contract v1beta1: status.conditions with a
// severity. The hub version stores them in status.deprecated.v1beta1, and the spoke version shows them.
// It uses no client and no clock. A reconciler calls it last before it saves its status, so that one
// write updates both forms:
//
//	machine.SetV1Beta1Conditions(v1beta1conditions.Conditions(machine.Status.Conditions))
package v1beta1conditions

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package canonical writes values in the one form that Ingot's schemas take, where
// another form means the same: a MAC address as an inventory prints it, a checksum
// in upper case.
//
// Two rules keep people and GitOps tools out of surprises (decision 0096). A value
// that the schema takes is never changed, so that nothing stored changes by itself.
// And the result is the canonical form or exactly what was given, so that a refusal
// names what the person wrote.
//
// The same function serves an object and the template of it, or the topology
// controller would see a difference for ever. Everything here is pure.
//
//	canonical.MAC("AA-BB-CC-00-11-22") // "aa:bb:cc:00:11:22"
//	canonical.Machine(&template.Spec.Template.Spec)
package canonical

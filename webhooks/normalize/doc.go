// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package normalize writes values in the one form that Ingot's schemas take, where
// another form means the same: a MAC address as an inventory prints it, a checksum
// in upper case.
//
// Three rules keep people and GitOps tools out of surprises (decision 0096). A value
// that the schema takes is never changed, so that nothing stored changes by itself.
// The result is the canonical form or exactly what was given, so that a refusal
// names what the person wrote. And neither a member of a set nor the key of a list is
// changed: server-side apply merges them before admission, by what was written, and
// the same manifest would be refused as a duplicate of itself.
//
// The same function serves an object and the template of it, or the topology
// controller would see a difference for ever. Everything here is pure.
//
//	normalize.MAC("AA-BB-CC-00-11-22") // "aa:bb:cc:00:11:22"
//	normalize.Machine(&template.Spec.Template.Spec)
package normalize

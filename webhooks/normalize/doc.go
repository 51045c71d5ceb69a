// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package normalize writes values in the form that Ingot's schemas accept, if another form means
// the same: a MAC address as an inventory prints it, a checksum in upper case.
//
// Three rules protect users and GitOps tools from surprises:
//
//   - It never changes a value that the schema accepts, so that nothing stored changes.
//   - The result is the normalized form or exactly the input, so that a rejection names what the
//     user wrote.
//   - It changes neither members of a set nor keys of a list. Server-side apply merges them
//     before admission, and would otherwise reject the same manifest as a duplicate.
//
// An object and its template use the same function, because the topology controller would
// otherwise see a permanent difference. All functions are pure.
//
//	normalize.MAC("AA-BB-CC-00-11-22") // "aa:bb:cc:00:11:22"
//	normalize.Machine(&template.Spec.Template.Spec)
package normalize

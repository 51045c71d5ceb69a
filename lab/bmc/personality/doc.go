// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package personality is how the makers' BMCs differ, as data: names and paths,
// which services exist and where, and the quirks with the answers they give. Each
// fact stands in docs/field-notes.md, a public issue or a maker's manual.
//
// It must not know how an answer is made: lab/bmc and its services read it.
//
//	p, ok := personality.Named("hpe-ilo6")
//	p.Quirks.POSTRefusals = 2 // a copy: its own from here on
package personality

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package personality has the differences between vendors' BMCs as data: names, paths, services and
// quirks with their answers. The source of each is docs/field-notes.md, a public issue or a vendor's
// manual. lab/bmc and its services use the data.
//
//	p, ok := personality.Named("hpe-ilo6")
//	p.Quirks.POSTRefusals = 2 // a copy: its own from here on
package personality

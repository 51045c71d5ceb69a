// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package script writes iPXE scripts: a host and a base URL in, text out.
//
// It is pure: no clock, no network, no state. It must not know who asks or how
// the text travels, and it refuses any value that could break out of its line,
// since a script is run with the machine's full authority.
//
//	text, err := script.Render(host, "http://192.0.2.1:8880")
package script

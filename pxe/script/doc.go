// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package script renders the boot scripts of hosts, for iPXE and GRUB.
//
// It is pure: no clock, no network, no state. It must not know the client or the protocol. It
// refuses any value that could break out of its line, because a script runs with full control
// of the machine.
//
//	text, err := script.Render(host, "http://192.0.2.1:8880")
package script

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootstorm boots simulated clients all at once through DHCP, TFTP and
// HTTP of one boot server, and lets a boot server die in the middle of a transfer.
//
// The server is a process of its own, so that its memory can be told from the
// clients'. TFTP and HTTP go over loopback, where each client has an address of
// its own; DHCP goes over loopback too, by a socket that answers whoever asked,
// since clients there cannot be reached by broadcast.
//
//	INGOT_FULL=1 go test -timeout 30m -v ./test/bootstorm # 2,000 clients
package bootstorm

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pxe holds the types that the boot server's packages share: what a host is, what
// it boots, and the events of a boot. The servers are the packages below: dhcp, dhcp6, ra,
// tftp, httpd and script. Package bootserver combines them.
//
// The boot server answers from memory, never waits, and writes nothing. It must not know
// Kubernetes, BMCs or the lifecycle of a host: it only reads a Directory, which its owner
// keeps current.
//
//	dir := pxe.Table{
//		"52:54:00:12:34:56": {
//			Namespace: "default", Name: "rack1-u7",
//			MAC:     mac,
//			Address: netip.MustParsePrefix("192.0.2.17/24"),
//			Plan: pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
//				Kernel:  kernel, // from Files.Add
//				Initrds: []pxe.File{initramfs},
//				Server:  "192.0.2.1:8843", Pin: pin, Token: token,
//			}},
//		},
//	}
//	cfg := bootserver.Config{Address: address, Directory: dir, …}
//	srv, err := bootserver.New(cfg)
//	sockets, err := bootserver.ListenHost(ctx, "eth0", cfg)
//	err = srv.Run(ctx, sockets)
package pxe

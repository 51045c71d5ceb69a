// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tftp is a read-only TFTP server for boot loaders: RFC 1350 with the
// options of RFC 2347–2349 (blksize, timeout, tsize) and RFC 7440
// (windowsize).
//
// It serves what its Files names and nothing else; what is missing is refused
// at once, because firmware (shim above all) asks for optional files and waits
// for the answer. Anything large goes by HTTP.
//
// It must not know who asks: no directory of hosts, no boot plans.
//
//	files, err := tftp.OpenDir("/usr/lib/ipxe", map[string][]byte{"autoexec.ipxe": script})
//	srv := tftp.Server{Files: files, ListenTransfer: func() (net.PacketConn, error) {
//		return net.ListenPacket("udp4", "192.0.2.1:0")
//	}}
//	err = srv.Serve(ctx, conn) // conn is bound to port 69
package tftp

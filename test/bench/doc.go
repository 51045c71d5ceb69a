// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bench is what a comparison of boot servers is made of: clients that
// load a server, the sums over several rounds, and the network between both. The
// program in boot compares Ingot's with those that Debian has (make bench-boot).
//
// It must not know whose server it loads: all are asked in the same way.
//
//	load := bench.TFTPLoad{Server: server, File: "loader", BlockSize: 1468, Window: 16, Clients: 50, Each: 4}
//	moved, err := load.Run()
package bench

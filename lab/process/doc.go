// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process runs the lab's child processes: each writes a log file, is
// stopped in bounded time, and dies with the process that started it, also when
// that is killed. It is for Linux, and must not know what the programs are.
//
//	p, err := process.Start(process.Command{Path: "/usr/bin/etcd", Dir: dir, Log: filepath.Join(dir, "etcd.log")})
//	if err != nil { ... }
//	defer p.Stop(10 * time.Second)
package process

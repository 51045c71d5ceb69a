// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootconfig answers the boot server's questions from the manager's cache:
// which host has this MAC address, what is it to boot, where does an image come
// from. It writes nothing and waits for nothing; its answers carry no
// authority to write a disk (I5), so that a stale cache costs a useless boot at
// most.
//
//	dir := bootconfig.New(bootconfig.Options{Cache: mgr.GetClient(), Keys: keys, ...})
//	err := dir.Follow(ctx, mgr.GetCache())
//	host, ok := dir.Lookup(mac)
package bootconfig

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootconfig answers the boot server from the manager's cache: which host has a MAC address,
// what the host boots, and where an image comes from. It writes nothing and does not block. Its
// answers carry no authority to write a disk (I5): an old cache costs a useless boot at most.
//
//	dir := bootconfig.New(bootconfig.Options{Cache: mgr.GetClient(), Keys: keys, ...})
//	err := dir.Follow(ctx, mgr.GetCache())
//	host, ok := dir.Lookup(mac)
package bootconfig

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seed writes the data of the first boot into an installed system. It finds the root
// file system on the disk, lets the kernel mount it, and writes cloud-init's NoCloud seed
// (/var/lib/cloud/seed/nocloud). For a system that Ignition configures it writes
// ignition/config.ign into the boot file system, as coreos-installer does. Such a system
// removes that file after its setup (github.com/coreos/fedora-coreos-config/pull/1089).
//
// The image is not trusted: every path is opened below the mounted root, so that symbolic
// links cannot lead out of it.
//
//	s := &seed.Mounter{LoadModule: modules.Load}
//	err := s.Seed(ctx, disk, bootstrap)
package seed

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seed gives an installed system the data of its first boot: it finds the
// root file system on the disk that was just written, mounts it by the kernel, and
// writes cloud-init's NoCloud seed into it (cloud-init, datasource NoCloud,
// /var/lib/cloud/seed/nocloud); or the boot file system of a system that Ignition
// sets up, into which it writes ignition/config.ign, as coreos-installer does. Such a
// system removes the file itself once it is set up
// (github.com/coreos/fedora-coreos-config/pull/1089).
//
// It knows no order and no session. The image is another's work and not trusted:
// every path is opened below the mounted root, so that a symbolic link in it leads
// nowhere else.
//
//	s := &seed.Mounter{LoadModule: modules.Load}
//	err := s.Seed(ctx, disk, bootstrap)
package seed

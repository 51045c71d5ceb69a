// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory holds what Ingot knows about servers and how it selects among them: the
// hardware of a host, its disks and root device hints, boot addresses, commands given by
// annotation, and how a server and a Node are recognized. The package is pure: it knows no
// Kubernetes client, no network and no clock, and changes none of its arguments.
//
// Decisions are in its subpackages: lifecycle (what a host needs next), remediation (what to do
// about an unhealthy Machine), allocation (which host a machine gets) and networkdata (the
// network configuration of an installed system).
//
//	disk, err := inventory.SelectRootDisk(hardware.Spec.Disks, hints)
package inventory

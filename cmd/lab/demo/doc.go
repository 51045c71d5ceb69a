// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo shows Ingot's main workflow in the virtual datacenter: servers are registered with
// kubectl, inspected, claimed by a MachineDeployment, installed over the network, booted, released
// and wiped. It counts the results in BMC logs, disks and API objects.
//
//	lab demo [--keep] [--simulated]
package demo

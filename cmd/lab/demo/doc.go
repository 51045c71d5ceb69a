// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package demo shows Ingot's main job from end to end in the virtual data centre:
// servers are registered with kubectl, inspected, claimed by a MachineDeployment,
// installed over the network, booted, released and wiped. What it says at the end
// is counted from BMC logs, disks and API objects, never from what it believes.
//
//	lab demo [--keep] [--simulated]
package demo

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent runs on a network-booted server. It opens a session with the manager, gets
// an order, inspects, installs or cleans the server, reports, and carries out the action of
// the acknowledgement.
//
// Disks, hardware facts, clock and network come from Config, so that simulated servers run
// the same code. The package does not use Kubernetes. A boot gives the agent no authority
// (I5): an order names everything that the agent writes. Independent of the order:
//
//   - It writes to a disk only if exactly one disk matches the order's reference (I12), and
//     if the disk's marker names this instance or one that the order lists as released (I8).
//   - It boots the disk only after the acknowledgement of a successful report (I4).
//   - A final refusal ends all writing at once, and so does a pause of the host (I10). After
//     a pause the agent asks for its order again and starts from the beginning.
//   - On an unknown server (agentapi.IsForUnknownServer) it only reports the hardware and changes
//     nothing.
//   - The members of a mirror are byte-identical before they become one array.
//   - The agent requests the bootstrap data last and writes it to the disk only (I15).
//
// Subpackages: marker reads and writes the marker, image writes an image to a disk, qcow2
// decodes qcow2 images, wipe removes tables and signatures, erase removes the content, raid
// makes a mirror, seed writes first-boot data into the installed system, probe reads
// hardware facts, block accesses disks, kmod loads kernel modules, and boot does the other
// work of /init.
//
//	action, err := agent.Run(ctx, agent.Config{
//		Servers: args.Servers, Files: args.Files, Pins: args.Pins, Token: args.Token,
//		Identity: identity, Probe: boot.Hardware, Disks: disks, Seeder: seeder,
//	})
package agent

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is what runs on a server that was network-booted: it opens a
// session with the manager, gets an order, inspects, installs or wipes, reports,
// and does what the acknowledgement says.
//
// It knows no hardware: disks, hardware facts, clock and network come from Config,
// so that a simulated server runs this very code. It knows no Kubernetes and no
// host but the one it runs on. A boot gives it no authority (I5): everything that
// it writes is named by an order, and these hold whatever the order says:
//
//   - It writes to a disk only if exactly one matches the order's reference (I12),
//     and only if the disk's marker names this instance or one that the order
//     lists as released (I8).
//   - It boots the disk only after the acknowledgement of a successful report (I4).
//   - A refusal that waiting does not heal ends all writing at once, and so does a
//     pause of the host (I10): the agent then idles, asks for its order again, and
//     begins anew only with the answer.
//   - On a server that nobody knows (agentapi.ForStranger) it does nothing but report
//     the hardware, and leaves the server as it was.
//   - The members of a mirror hold the same, byte by byte, before they are made one array.
//   - The bootstrap data is asked for last, goes to the disk, and is nowhere else
//     (I15).
//
// The parts: marker reads and writes the marker, image brings an image to a disk and
// qcow2 reads one form of it, wipe cleans disks of what is recognised and erase of
// their content, raid makes a mirror of disks, seed finds the installed system, probe
// reads hardware facts, block and kmod are disks and kernel modules, boot is what /init
// does around it.
//
//	action, err := agent.Run(ctx, agent.Config{
//		Servers: args.Servers, Files: args.Files, Pins: args.Pins, Token: args.Token,
//		Identity: identity, Probe: boot.Hardware, Disks: disks, Seeder: seeder,
//	})
package agent

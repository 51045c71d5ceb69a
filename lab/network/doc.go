// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network is the lab's user-space Ethernet: a learning switch for virtual servers (QEMU,
// with its stream socket) and in-process network stacks. It needs no privileges and uses no
// interface of the machine, except for AttachTap.
//
// It does not know the protocols above it: no DHCP, no boot server, no BMC. It never imports pxe or
// bmc, so that the simulators cannot share an error with the code under test.
//
// A segment with a QEMU server and an in-process stack:
//
//	sw := network.NewSwitch()
//	defer sw.Close()
//	sw.Capture(pcapFile)
//	sw.AnswerRouterSolicitations()
//
//	st, err := network.NewStack(sw, network.StackConfig{
//		Name:    "boot",
//		Address: netip.MustParsePrefix("192.0.2.1/24"),
//	})
//	l, err := st.ListenTCP(8880)
//	err = sw.ListenUnix("server-1", filepath.Join(dir, "nic0.sock"))
//	// qemu … -netdev stream,id=n0,server=off,addr.type=unix,addr.path=…/nic0.sock
package network

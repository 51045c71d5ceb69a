// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network is the lab's user-space Ethernet: a learning switch into
// which virtual servers (QEMU, by its stream socket) and in-process network
// stacks are plugged. It needs no privileges and touches no interface of the
// machine it runs on.
//
// It must not know what travels over it: no DHCP, no boot server, no BMC. It
// never imports pxe or bmc, so that the simulators cannot share a mistake with
// the code they test.
//
// A segment with one server on QEMU's end and one on ours:
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

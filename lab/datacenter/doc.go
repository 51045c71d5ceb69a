// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datacenter is the virtual datacenter: virtual (QEMU) or simulated servers on one network
// in user space, each with a BMC on loopback that has Redfish over TLS or another Protocol. It does
// not know Kubernetes or Ingot's manager.
//
//	dc, err := datacenter.Start(datacenter.Config{Dir: dir, Servers: []datacenter.ServerSpec{{Name: "a1"}}})
//	defer dc.Close()
//	server := dc.Server("a1")
//	fmt.Println(server.BMC.Address(), server.BMC.Actions())
package datacenter

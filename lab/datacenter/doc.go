// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package datacenter is the virtual data centre: servers, virtual (QEMU) or
// simulated, on one network in user space, each with a BMC that speaks Redfish
// over TLS on loopback. It knows nothing of Kubernetes or of Ingot's manager.
//
//	dc, err := datacenter.Start(datacenter.Config{Dir: dir, Servers: []datacenter.ServerSpec{{Name: "a1", Rack: "a"}}})
//	defer dc.Close()
//	server := dc.Server("a1")
//	fmt.Println(server.BMC.Address(), server.BMC.Actions())
package datacenter

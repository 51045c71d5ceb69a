// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// Network has the network interfaces of a server, even of a bare BMC.
type Network struct {
	Personality personality.Personality
	MACs        []string
}

// Broken reports whether path is the first interface.
func (n Network) Broken(path string) bool {
	return len(n.MACs) > 0 && path == n.interfacePath(0)
}

// Read returns a resource with MAC addresses.
func (n Network) Read(path string) (resource.Object, bool) {
	q, macs := n.Personality.Quirks, n.MACs
	if !q.NoEthernetInterfaces || q.BMCInterface {
		shown := n.interfaces()
		if path == n.Personality.System()+"/EthernetInterfaces" {
			return resource.Collection(path, "EthernetInterface", slices.Sorted(maps.Keys(shown))), true
		}
		if res, ok := shown[path]; ok {
			return res, true
		}
	}
	if res, ok := n.chassisAdapter(path); ok {
		return res, true
	}
	if !q.NetworkAdapters {
		return nil, false
	}
	functions := n.Personality.System() + "/NetworkInterfaces/1/NetworkDeviceFunctions"
	switch path {
	case n.Personality.System() + "/NetworkInterfaces":
		return resource.Collection(path, "NetworkInterface", []string{path + "/1"}), true
	case n.Personality.System() + "/NetworkInterfaces/1":
		return resource.Object{"@odata.id": path, "Id": "1", "Name": "Network Interface", "NetworkDeviceFunctions": resource.Ref(functions)}, true
	case functions:
		members := make([]string, len(macs))
		for i := range macs {
			members[i] = fmt.Sprintf("%s/%d", functions, i+1)
		}
		return resource.Collection(path, "NetworkDeviceFunction", members), true
	}
	for i, mac := range macs {
		if path == fmt.Sprintf("%s/%d", functions, i+1) {
			return resource.Object{"@odata.id": path, "Id": fmt.Sprint(i + 1), "Name": "Function",
				"Ethernet": resource.Object{"PermanentMACAddress": mac}}, true
		}
	}
	return nil, false
}

// chassisAdapter returns a card that only the chassis shows.
func (n Network) chassisAdapter(path string) (resource.Object, bool) {
	if !n.Personality.Quirks.ChassisAdapter {
		return nil, false
	}
	adapters := n.Personality.Chassis() + "/NetworkAdapters"
	functions := adapters + "/Card/NetworkDeviceFunctions"
	switch path {
	case adapters:
		return resource.Collection(path, "NetworkAdapter", []string{path + "/Card"}), true
	case adapters + "/Card":
		o := resource.New(path, "NetworkAdapter.v1_9_0", "Card")
		o["NetworkDeviceFunctions"] = resource.Ref(functions)
		return o, true
	case functions:
		return resource.Collection(path, "NetworkDeviceFunction", []string{path + "/1"}), true
	case functions + "/1":
		o := resource.New(path, "NetworkDeviceFunction.v1_9_0", "Function")
		o["Ethernet"] = resource.Object{"PermanentMACAddress": n.MACs[len(n.MACs)-1]}
		return o, true
	}
	return nil, false
}

// interfaces returns the members of the collection by path.
func (n Network) interfaces() map[string]resource.Object {
	shown := map[string]resource.Object{}
	add := func(path, mac string) resource.Object {
		res := resource.New(path, "EthernetInterface.v1_12_0", "Ethernet Interface")
		res["PermanentMACAddress"], res["MACAddress"], res["SpeedMbps"] = strings.ToUpper(mac), strings.ToUpper(mac), 10000
		shown[path] = res
		return res
	}
	if !n.Personality.Quirks.NoEthernetInterfaces {
		macs := n.MACs
		if n.Personality.Quirks.ChassisAdapter {
			macs = macs[:len(macs)-1]
		}
		for i, mac := range macs {
			add(n.interfacePath(i), mac)
		}
	}
	if n.Personality.Quirks.BMCInterface {
		collection := n.Personality.System() + "/EthernetInterfaces/"
		add(collection+"ToManager", "02:00:5E:00:53:FE")["Id"] = "ToManager"
		add(collection+"Placeholder", "02:00:5E:00:53:FD")["InterfaceEnabled"] = false
	}
	return shown
}

func (n Network) interfacePath(i int) string {
	return fmt.Sprintf("%s/EthernetInterfaces/%d", n.Personality.System(), i+1)
}

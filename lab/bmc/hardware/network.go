// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// Network is the network interfaces of a server, which a bare BMC has too.
type Network struct {
	Personality personality.Personality
	MACs        []string
}

// Broken says whether the path is the first interface's.
func (n Network) Broken(path string) bool {
	return len(n.MACs) > 0 && path == n.interfacePath(0)
}

// Read finds the resources that show MAC addresses.
func (n Network) Read(path string) (resource.Object, bool) {
	q, macs := n.Personality.Quirks, n.MACs
	if !q.NoEthernetInterfaces {
		if path == n.Personality.System()+"/EthernetInterfaces" {
			members := make([]string, len(macs))
			for i := range macs {
				members[i] = n.interfacePath(i)
			}
			return resource.Collection(path, "EthernetInterface", members), true
		}
		for i, mac := range macs {
			if path == n.interfacePath(i) {
				res := resource.New(path, "EthernetInterface.v1_12_0", "Ethernet Interface")
				res["PermanentMACAddress"], res["MACAddress"], res["SpeedMbps"] = strings.ToUpper(mac), strings.ToUpper(mac), 10000
				return res, true
			}
		}
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

func (n Network) interfacePath(i int) string {
	return fmt.Sprintf("%s/EthernetInterfaces/%d", n.Personality.System(), i+1)
}

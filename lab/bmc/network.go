// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// lookupNetwork finds the resources that show MAC addresses.
func (b *BMC) lookupNetwork(path string) (object, bool) {
	q, macs := b.p.Quirks, b.cfg.System.MACs
	if !q.NoEthernetInterfaces {
		if path == b.SystemPath()+"/EthernetInterfaces" {
			members := make([]string, len(macs))
			for i := range macs {
				members[i] = b.interfacePath(i)
			}
			return resource.Collection(path, "EthernetInterface", members), true
		}
		for i, mac := range macs {
			if path == b.interfacePath(i) {
				res := resource.New(path, "EthernetInterface.v1_12_0", "Ethernet Interface")
				res["PermanentMACAddress"], res["MACAddress"], res["SpeedMbps"] = strings.ToUpper(mac), strings.ToUpper(mac), 10000
				return res, true
			}
		}
	}
	if !q.NetworkAdapters {
		return nil, false
	}
	functions := b.SystemPath() + "/NetworkInterfaces/1/NetworkDeviceFunctions"
	switch path {
	case b.SystemPath() + "/NetworkInterfaces":
		return resource.Collection(path, "NetworkInterface", []string{path + "/1"}), true
	case b.SystemPath() + "/NetworkInterfaces/1":
		return object{"@odata.id": path, "Id": "1", "Name": "Network Interface", "NetworkDeviceFunctions": resource.Ref(functions)}, true
	case functions:
		members := make([]string, len(macs))
		for i := range macs {
			members[i] = fmt.Sprintf("%s/%d", functions, i+1)
		}
		return resource.Collection(path, "NetworkDeviceFunction", members), true
	}
	for i, mac := range macs {
		if path == fmt.Sprintf("%s/%d", functions, i+1) {
			return object{"@odata.id": path, "Id": fmt.Sprint(i + 1), "Name": "Function",
				"Ethernet": object{"PermanentMACAddress": mac}}, true
		}
	}
	return nil, false
}

func (b *BMC) interfacePath(i int) string {
	return fmt.Sprintf("%s/EthernetInterfaces/%d", b.SystemPath(), i+1)
}

func (b *BMC) systemPaths() []string {
	paths := []string{b.SystemPath()}
	for i := 1; i < b.p.Quirks.Systems; i++ {
		paths = append(paths, fmt.Sprintf("%s/other-%d", pathSystems, i))
	}
	return paths
}

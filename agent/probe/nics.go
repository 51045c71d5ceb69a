// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// ethernet is ARPHRD_ETHER of linux/if_arp.h.
const ethernet = 1

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// nics lists Ethernet interfaces with hardware. It omits SR-IOV virtual functions, which the
// installed system creates and removes.
func nics(root fs.FS) []agentapi.NIC {
	entries, err := fs.ReadDir(root, "sys/class/net")
	if err != nil {
		return nil
	}
	var out []agentapi.NIC
	for _, e := range entries {
		dir := path.Join("sys/class/net", e.Name())
		if !exists(root, dir+"/device") || exists(root, dir+"/device/physfn") || number(root, dir+"/type") != ethernet {
			continue
		}
		nic := agentapi.NIC{
			Name:    e.Name(),
			MAC:     strings.ToLower(text(root, dir+"/address")),
			Carrier: text(root, dir+"/carrier") == "1",
			Driver:  path.Base("/" + link(root, dir+"/device/driver")),
			PCI:     lastPCI(link(root, dir)),
		}
		if nic.Driver == "/" {
			nic.Driver = ""
		}
		if speed := number(root, dir+"/speed"); speed > 0 && speed < 1<<31-1 {
			nic.SpeedMbps = int32(speed)
		}
		out = append(out, nic)
	}
	return out
}

// lastPCI returns the last PCI address in a sysfs path.
func lastPCI(sysfs string) string {
	var last string
	for part := range strings.SplitSeq(sysfs, "/") {
		if pciAddress.MatchString(part) {
			last = part
		}
	}
	return last
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

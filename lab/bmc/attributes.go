// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net/http"
	"path"
	"slices"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// This file emulates the attributes of an iDRAC that select the next boot. They are the same
// setting as the system's override, which has no name for the virtual drive (quirk PhysicalCD).

const (
	firstBootDevice = "ServerBoot.1.FirstBootDevice"
	bootOnce        = "ServerBoot.1.BootOnce"
)

// bootDevices are the values of ServerBoot.1.FirstBootDevice.
var bootDevices = map[string]Target{
	"Normal": TargetNone, "PXE": TargetPXE, "HDD": TargetDisk, "CD-DVD": TargetLocalCD, "VCD-DVD": TargetCD, "BIOS": TargetSetup, "UEFIHttp": TargetHTTP,
}

// attributesPath returns the path of the iDRAC's attributes; empty: there are none. Early iDRACs
// have them below the manager, without a link.
func (b *BMC) attributesPath() string {
	switch {
	case !b.p.Quirks.PhysicalCD:
		return ""
	case b.p.HTTPPushForm:
		return b.p.Manager() + "/Attributes"
	}
	return b.p.Manager() + "/Oem/Dell/DellAttributes/" + path.Base(b.p.Manager())
}

// otherAttributes have links too; this file does not emulate them.
var otherAttributes = []string{"System.Embedded.1", "LifecycleController.Embedded.1"}

func (b *BMC) linkAttributes(manager object) {
	p := b.attributesPath()
	if p == "" || b.p.HTTPPushForm {
		return
	}
	links := []object{resource.Ref(p)}
	for _, other := range otherAttributes {
		links = append(links, resource.Ref(path.Join(path.Dir(p), other)))
	}
	slices.Reverse(links)
	manager["Links"].(object)["Oem"] = object{"Dell": object{"DellAttributes": links}}
}

func (b *BMC) attributes(p string) (object, bool) {
	own := b.attributesPath()
	if own == "" || p != own && (path.Dir(p) != path.Dir(own) || !slices.Contains(otherAttributes, path.Base(p))) {
		return nil, false
	}
	res := resource.New(p, "DellAttributes.v1_0_0", "OEM DellAttributes")
	if res["Attributes"] = (object{"Info.1.ServerGen": "14G"}); p == own {
		res["Attributes"] = b.ownAttributes()
	}
	return res, true
}

func (b *BMC) ownAttributes() object {
	boot := b.cfg.Machine.Boot()
	device, once := "Normal", "Enabled"
	for name, target := range bootDevices {
		if target == boot.Target {
			device = name
		}
	}
	if boot.Enabled == Continuous {
		once = "Disabled"
	}
	return object{firstBootDevice: device, bootOnce: once, "IPv4.1.PrefixLength": 24, "SNMP.1.TrapFormat": nil}
}

func (b *BMC) patchAttributes(r resource.Request, f Faults) resource.Answer {
	var body struct{ Attributes map[string]string }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	boot := b.cfg.Machine.Boot()
	for name, value := range body.Attributes {
		target, known := bootDevices[value]
		switch {
		case name == firstBootDevice && known:
			boot.Target = target
		case name == bootOnce && slices.Contains([]string{"Enabled", "Disabled"}, value):
			boot.Enabled = map[string]Persistence{"Enabled": Once, "Disabled": Continuous}[value]
		default:
			return resource.Fail(http.StatusBadRequest, "IDRAC.2.8.SYS428", "The value "+value+" of the attribute "+name+" is not valid.").Named("Attributes")
		}
	}
	if boot.Target == TargetNone {
		boot.Enabled = Disabled
	}
	if !f.ForgetBoot {
		b.cfg.Machine.SetBoot(boot)
	}
	return resource.Done("Boot " + string(boot.Enabled) + " " + string(boot.Target) + " " + string(boot.Mode))
}

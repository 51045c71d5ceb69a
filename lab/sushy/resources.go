// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package sushy

import (
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

const (
	root    = "/redfish/v1"
	chassis = "15693887-7984-9484-3272-842188918912" // the UUID of SheetMetalChassis
)

// registryName is AttributeRegistry of Bios and the Id of the registry; the registry file has
// another name.
const registryName = "BiosAttributeRegistryP89.v1_0_0"

// route answers an authenticated request.
func (s *Server) route(r *http.Request, path string) answer {
	below, ok := strings.CutPrefix(path, root+"/Systems/")
	if ok {
		id, rest, _ := strings.Cut(below, "/")
		switch {
		case id == s.cfg.UUID:
			return s.routeSystem(r, "/"+rest)
		case id == s.cfg.Name && id != "": // AliasAccessError
			return answer{status: http.StatusTemporaryRedirect, location: strings.Replace(path, "/"+id, "/"+s.cfg.UUID, 1)}
		case below == "Bios/BiosRegistry" && s.cfg.BIOS:
			return only(r, registry())
		}
		return fail(http.StatusNotFound, "Fake system "+id+" was not found")
	}
	if r.Method != http.MethodGet {
		return missing()
	}
	switch path {
	case root:
		return shown(object{
			"@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "@odata.id": root + "/", "Id": "RedvirtService", "Name": "Redvirt Service",
			"RedfishVersion": "1.5.0", "UUID": "85775665-c110-4b85-8989-e6162170b3ec",
			"Chassis": link(root + "/Chassis"), "Systems": link(root + "/Systems"), "Managers": link(root + "/Managers"),
			"Registries": link(root + "/Registries"), "CertificateService": link(root + "/CertificateService"),
		})
	case root + "/Systems":
		return shown(collection(path, s.SystemPath()))
	case root + "/Managers":
		return shown(collection(path, s.manager()))
	case root + "/Chassis":
		return shown(collection(path, root+"/Chassis/"+chassis))
	case s.manager():
		return shown(s.managerResource())
	case root + "/Chassis/" + chassis:
		return shown(s.chassisResource())
	case root + "/Chassis/" + chassis + "/Thermal":
		return shown(thermal())
	case root + "/Registries":
		return shown(collection(path, root+"/Registries/Messages", root+"/Registries/BiosAttributeRegistry.v1_0_0"))
	case root + "/Registries/Messages":
		return shown(registryFile("Messages", "Base.1.0", root+"/Registries/Messages/Registry"))
	case root + "/Registries/BiosAttributeRegistry.v1_0_0":
		return shown(registryFile("BiosAttributeRegistry.v1_0_0", "BiosAttributeRegistry1.0", root+"/Systems/Bios/BiosRegistry"))
	}
	return missing()
}

// routeSystem answers requests below the system.
func (s *Server) routeSystem(r *http.Request, rest string) answer {
	if slot, action, ok := s.slotOf(rest); ok {
		return s.routeMedia(r, slot, action)
	}
	if after, ok := strings.CutPrefix(rest, "/BIOS"); ok && s.cfg.BIOS {
		return s.routeBIOS(r, after)
	}
	switch r.Method + " " + rest {
	case "GET /":
		return shown(s.system())
	case "PATCH /":
		return s.patchSystem(r)
	case "POST /Actions/ComputerSystem.Reset":
		return s.power(r)
	case "GET /EthernetInterfaces":
		var paths []string
		for _, mac := range s.cfg.MACs {
			paths = append(paths, s.SystemPath()+rest+"/"+mac)
		}
		return shown(collection(s.SystemPath()+rest, paths...))
	case "GET /VirtualMedia":
		return shown(collection(s.SystemPath()+rest, s.SystemPath()+rest+"/Cd", s.SystemPath()+rest+"/Floppy"))
	case "GET /SecureBoot":
		return shown(s.secureBootResource())
	case "PATCH /SecureBoot":
		return s.patchSecureBoot(r)
	case "GET /BIOS": // the fake driver
		return fail(http.StatusNotImplemented, "Not implemented")
	}
	for _, mac := range s.cfg.MACs {
		if r.Method == http.MethodGet && rest == "/EthernetInterfaces/"+mac {
			return shown(object{
				"@odata.type": "#EthernetInterface.v1_0_2.EthernetInterface", "@odata.id": s.SystemPath() + rest, "Id": mac, "Name": "VNIC " + mac,
				"Status": healthy(), "PermanentMACAddress": mac, "MACAddress": mac,
			})
		}
	}
	return missing()
}

// slotOf splits /VirtualMedia/<slot>[/Actions/…].
func (s *Server) slotOf(rest string) (slot, action string, ok bool) {
	after, ok := strings.CutPrefix(rest, "/VirtualMedia/")
	if !ok {
		return "", "", false
	}
	slot, action, _ = strings.Cut(after, "/")
	_, ok = s.media[slot]
	return slot, action, ok
}

func (s *Server) routeMedia(r *http.Request, slot, action string) answer {
	switch r.Method + " " + action {
	case "GET ":
		return shown(s.slot(slot))
	case "POST Actions/VirtualMedia.InsertMedia":
		return s.insert(r, slot)
	case "POST Actions/VirtualMedia.EjectMedia":
		return s.eject(slot)
	}
	return missing()
}

func (s *Server) routeBIOS(r *http.Request, rest string) answer {
	switch r.Method + " " + rest {
	case "GET ", "GET /Settings":
		return shown(s.biosResource(rest))
	case "PATCH /Settings":
		return s.patchBIOS(r)
	case "POST /Actions/Bios.ResetBios":
		return s.resetBIOS()
	}
	return missing()
}

func (s *Server) manager() string { return root + "/Managers/" + s.cfg.UUID }

func shown(body object) answer { return answer{status: http.StatusOK, body: body} }

func only(r *http.Request, body object) answer {
	if r.Method != http.MethodGet {
		return missing()
	}
	return shown(body)
}

func link(path string) object { return object{"@odata.id": path} }

func healthy() object { return object{"State": "Enabled", "Health": "OK"} }

func collection(path string, members ...string) object {
	links := make([]object, len(members))
	for i, m := range members {
		links[i] = link(m)
	}
	return object{"@odata.id": path, "Name": "Collection", "Members@odata.count": len(links), "Members": links}
}

// system returns templates/system.json with the feature set "full".
func (s *Server) system() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := s.SystemPath()
	power := "Off"
	if s.cfg.Machine.Powered() {
		power = "On"
	}
	boot := object{
		"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": s.target, "BootSourceOverrideMode": s.mode,
		"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"Pxe", "Cd", "Hdd"},
	}
	if s.mode == machine.UEFI {
		boot["BootSourceOverrideTarget@Redfish.AllowableValues"] = []string{"Pxe", "Cd", "Hdd", "UefiHttp"}
		boot["UefiTargetBootSourceOverride"], boot["HttpBootUri"] = "/0x31/0x33/0x01/0x01", "None" // Python's None as text
	}
	rollUp := object{"State": "Enabled", "Health": "OK", "HealthRollUp": "OK"}
	processors, memory := object{"Status": rollUp}, object{"Status": rollUp}
	if s.cfg.Cores > 0 {
		processors["Count"] = s.cfg.Cores
	}
	if s.cfg.MemoryGiB > 0 {
		memory["TotalSystemMemoryGiB"] = s.cfg.MemoryGiB
	}
	out := object{
		"@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem", "@odata.id": path, "Id": s.cfg.UUID, "Name": s.cfg.Name, "UUID": s.cfg.UUID,
		"Manufacturer": "Sushy Emulator", "Status": rollUp, "PowerState": power, "Boot": boot, "ProcessorSummary": processors, "MemorySummary": memory,
		"Memory": link(path + "/Memory"), "SecureBoot": link(path + "/SecureBoot"), "IndicatorLED": s.led,
		"EthernetInterfaces": link(path + "/EthernetInterfaces"), "VirtualMedia": link(path + "/VirtualMedia"),
		"Links": object{"Chassis": []object{link(root + "/Chassis/" + chassis)}, "ManagedBy": []object{link(s.manager())}},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target":                            path + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"},
		}},
	}
	if s.cfg.BIOS {
		out["Bios"] = link(path + "/BIOS")
	}
	return out
}

func (s *Server) managerResource() object {
	return object{
		"@odata.type": "#Manager.v1_3_1.Manager", "@odata.id": s.manager(), "Id": s.cfg.UUID, "Name": s.cfg.Name + "-Manager", "UUID": s.cfg.UUID,
		"ServiceEntryPointUUID": nil, "ManagerType": "BMC", "Description": "Contoso BMC", "Model": "Joo Janta 200", "Status": healthy(), "PowerState": "On",
		"FirmwareVersion": "1.00", "VirtualMedia": link(s.SystemPath() + "/VirtualMedia"),
		"Links": object{"ManagerForServers": []object{link(s.SystemPath())}, "ManagerForChassis": []object{link(root + "/Chassis/" + chassis)}},
	}
}

func (s *Server) chassisResource() object {
	path := root + "/Chassis/" + chassis
	return object{
		"@odata.type": "#Chassis.v1_5_0.Chassis", "@odata.id": path, "Id": chassis, "Name": "Chassis", "UUID": chassis, "ChassisType": "Enclosure",
		"Manufacturer": "Contoso", "Model": "3500RX", "SerialNumber": "437XR1138R2", "PowerState": "On", "IndicatorLED": "Lit", "Status": healthy(),
		"Thermal": link(path + "/Thermal"),
		"Links":   object{"ComputerSystems": []object{link(s.SystemPath())}, "ManagedBy": []object{link(s.manager())}},
	}
}

func thermal() object {
	temperature := func(name string, reading int) object {
		return object{"Name": name, "Status": healthy(), "ReadingCelsius": reading}
	}
	fan := func(name string, reading int) object {
		return object{"Name": name, "Status": healthy(), "Reading": reading, "ReadingUnits": "RPM"}
	}
	return object{
		"@odata.type": "#Thermal.v1_3_0.Thermal", "@odata.id": root + "/Chassis/" + chassis + "/Thermal", "Id": "Thermal", "Name": "Thermal",
		"Temperatures": []object{temperature("CPU Temp", 41), temperature("Chassis Intake Temp", 25)},
		"Fans":         []object{fan("BaseBoard System Fan", 2100), fan("BaseBoard System Fan Backup", 2050)},
	}
}

func (s *Server) slot(id string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, path := s.media[id], s.SystemPath()+"/VirtualMedia/"+id
	name, kinds, password := "Virtual CD", []string{"CD", "DVD"}, ""
	if id == "Floppy" {
		name, kinds = "Virtual Removable Media", []string{"Floppy", "USBStick"}
	}
	if m.password != "" {
		password = "******"
	}
	return object{
		"@odata.type": "#VirtualMedia.v1_4_0.VirtualMedia", "@odata.id": path, "Id": id, "Name": name, "MediaTypes": kinds, "ConnectedVia": "URI",
		"Image": m.image, "ImageName": m.image[strings.LastIndex(m.image, "/")+1:], "Inserted": m.inserted, "WriteProtected": m.protected,
		"UserName": m.username, "Password": password, "VerifyCertificate": false, "Certificates": link(path + "/Certificates"),
		"Actions": object{
			"#VirtualMedia.EjectMedia":  object{"target": path + "/Actions/VirtualMedia.EjectMedia"},
			"#VirtualMedia.InsertMedia": object{"target": path + "/Actions/VirtualMedia.InsertMedia"},
			"Oem":                       object{},
		},
	}
}

func (s *Server) secureBootResource() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := "Disabled"
	if s.secureBoot {
		current = "Enabled"
	}
	return object{
		"@odata.type": "#SecureBoot.v1_1_0.SecureBoot", "@odata.id": s.SystemPath() + "/SecureBoot", "Id": "SecureBoot", "Name": "UEFI Secure Boot",
		"Actions": object{}, "SecureBootEnable": s.secureBoot, "SecureBootCurrentBoot": current, "SecureBootMode": "DeployedMode",
	}
}

func (s *Server) biosResource(rest string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	attributes, path := object{}, s.SystemPath()+"/BIOS"
	for name, value := range s.bios {
		attributes[name] = value
	}
	out := object{"@odata.type": "#Bios.v1_0_0.Bios", "@odata.id": path + rest, "Id": "BIOS", "AttributeRegistry": registryName, "Attributes": attributes}
	if rest != "" {
		out["Id"] = "Settings"
		return out
	}
	out["@Redfish.Settings"] = object{"@odata.type": "#Settings.v1_0_0.Settings", "SettingsObject": link(path + "/Settings")}
	out["Actions"] = object{"#Bios.ResetBios": object{"target": path + "/Actions/Bios.ResetBios"}}
	return out
}

func registryFile(id, name, uri string) object {
	return object{
		"@odata.type": "#MessageRegistryFile.v1_1_0.MessageRegistryFile", "@odata.id": root + "/Registries/" + id, "Id": id, "Registry": name,
		"Languages": []string{"en"}, "Location": []object{{"Language": "en", "Uri": uri}},
	}
}

// registry describes four of the attributes, like templates/bios_registry.json.
func registry() object {
	choice := func(name string, values ...string) object {
		var list []object
		for _, v := range values {
			list = append(list, object{"ValueDisplayName": v, "ValueName": v})
		}
		return object{"AttributeName": name, "Type": "Enumeration", "ReadOnly": false, "Immutable": false, "Value": list}
	}
	return object{
		"@odata.type": "#AttributeRegistry.v1_1_1.AttributeRegistry", "@odata.id": root + "/Systems/Bios/BiosRegistry", "Id": registryName, "Language": "en",
		"RegistryVersion": "1.1.1", "RegistryEntries": object{"Attributes": []object{
			choice("ProcTurboMode", "Enabled", "Disabled"), choice("BootMode", "Bios", "Uefi"),
			{"AttributeName": "NumCores", "Type": "Integer", "ReadOnly": true}, {"AttributeName": "QuietBoot", "Type": "Boolean", "ReadOnly": false},
		}},
	}
}

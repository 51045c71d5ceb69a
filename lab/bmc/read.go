// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/events"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/hardware"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/session"
	"github.com/ingot-metal/ingot/lab/bmc/settings"
)

const (
	pathRoot     = resource.Root
	pathSystems  = pathRoot + "/Systems"
	pathSessions = session.Path
)

type object = resource.Object

// read answers GET and HEAD.
func (b *BMC) read(w http.ResponseWriter, r *http.Request, f Faults) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if b.isWeb(r) {
		b.services.web.Serve(w, r)
		return
	}
	switch path {
	case "":
		if b.p.FrontPage != "" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, b.p.FrontPage)
			return
		}
	case "/redfish":
		resource.Send(w, http.StatusOK, object{"v1": pathRoot + "/"})
		return
	case pathRoot:
		resource.Send(w, http.StatusOK, b.root())
		return
	}
	if !strings.HasPrefix(path, "/redfish") {
		notFound(w, path)
		return
	}
	if !b.sessions.Authorized(r.Header) {
		unauthorized(w)
		return
	}
	if a, ok := b.sessions.MustChange(path); !ok {
		a.Send(w)
		return
	}
	if b.isSystem(path) {
		b.readSystem(w, r, path, f)
		return
	}
	if f.Members > 0 && strings.Contains(path, fault.ExtraMember) {
		resource.Send(w, http.StatusOK, resource.New(path, "Resource.v1_19_0", "Extra"))
		return
	}
	if b.services != nil && b.readSpecial(w, r, path) {
		return
	}
	if b.broken(path) {
		resource.Fail(http.StatusInternalServerError, "InternalError", path+" cannot be read").Send(w)
		return
	}
	res, ok := b.lookup(path)
	if !ok {
		notFound(w, path)
		return
	}
	if r.URL.Query().Has("$expand") {
		b.expand(res)
	}
	if b.services != nil {
		if tag := b.tagOf(res); tag != "" {
			b.sendTag(w, r, tag)
			b.showTag(res, tag)
		}
	}
	resource.Send(w, http.StatusOK, res)
}

// readSpecial answers reads of monitors, streams and compressed registries.
func (b *BMC) readSpecial(w http.ResponseWriter, r *http.Request, path string) bool {
	if a, ok := b.services.tasks.Monitor(path); ok {
		b.services.tasks.Step()
		a.Send(w)
		return true
	}
	if b.p.SSE && path == events.StreamPath {
		b.services.events.Stream(w, r)
		return true
	}
	if b.p.Quirks.GzipRegistry && path == settings.RegistryPath(b.p.BIOSRegistry) {
		res, _ := b.services.settings.Read(path)
		resource.SendCompressed(w, res)
		return true
	}
	return false
}

// broken reports the members that cannot be read (quirks).
func (b *BMC) broken(path string) bool {
	q := b.p.Quirks
	return q.BrokenInterface && b.network().Broken(path) ||
		q.BrokenDrive && b.services != nil && b.services.hardware.Broken(path)
}

func (b *BMC) root() object {
	version := "1.17.0"
	vendor := b.cfg.System.Manufacturer
	if !b.p.Bare() {
		version, vendor = b.p.RedfishVersion, b.p.Vendor
	}
	res := object{
		"@odata.id": pathRoot + "/", "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
		"Id": "RootService", "Name": "Root Service", "RedfishVersion": version,
		"UUID": b.cfg.System.BMCUUID, "Vendor": vendor,
		"Systems": resource.Ref(pathSystems), "Managers": resource.Ref(pathRoot + "/Managers"), "Chassis": resource.Ref(pathRoot + "/Chassis"),
	}
	if !b.p.Quirks.BasicOnly {
		res["SessionService"], res["Links"] = resource.Ref(pathRoot+"/SessionService"), object{"Sessions": resource.Ref(pathSessions)}
	}
	if b.p.Quirks.Expand || b.p.Quirks.ExpandLies {
		res["ProtocolFeaturesSupported"] = object{"ExpandQuery": object{"ExpandAll": true, "Levels": true, "Links": true, "NoLinks": true, "MaxLevels": 1}}
	}
	if b.services != nil {
		b.services.linkRoot(res)
	}
	return res
}

// expand puts the members of a collection into it (DSP0266, expand query parameter).
func (b *BMC) expand(res object) {
	refs, _ := res["Members"].([]object)
	if q := b.p.Quirks; !q.Expand && !q.ExpandLies || len(refs) == 0 {
		return
	}
	members := make([]object, 0, len(refs))
	for _, ref := range refs {
		if path, _ := ref["@odata.id"].(string); !b.broken(path) {
			if member, ok := b.lookup(path); ok {
				members = append(members, member)
			}
		}
	}
	if b.p.Quirks.ExpandLies {
		members = members[1:]
	}
	res["Members"] = members
}

// lookup returns the resources that need neither faults nor headers.
func (b *BMC) lookup(path string) (object, bool) {
	switch path {
	case pathSystems:
		return resource.Collection(path, "ComputerSystem", b.systemPaths()), true
	case pathRoot + "/Managers":
		return resource.Collection(path, "Manager", []string{b.p.Manager()}), true
	case b.p.Manager():
		return b.manager(), true
	case pathRoot + "/Chassis":
		return resource.Collection(path, "Chassis", []string{b.p.Chassis()}), true
	case b.p.Chassis():
		res := resource.New(path, "Chassis.v1_25_0", "Chassis")
		res["ChassisType"], res["SerialNumber"] = "RackMount", b.cfg.System.Serial
		res["Links"] = object{"ComputerSystems": []object{resource.Ref(b.SystemPath())}}
		if b.p.Quirks.ChassisAdapter {
			res["NetworkAdapters"] = resource.Ref(path + "/NetworkAdapters")
		}
		if b.services != nil {
			b.services.hardware.LinkChassis(res)
		}
		return res, true
	case b.SystemPath() + "/ResetActionInfo":
		res := resource.New(path, "ActionInfo.v1_4_0", "Reset Action Info")
		res["Parameters"] = []object{{"Name": "ResetType", "Required": true, "AllowableValues": b.resetTypes()}}
		return res, true
	}
	if res, ok := b.sessions.Read(path); ok {
		return res, true
	}
	if b.services != nil {
		if res, ok := b.services.read(path); ok {
			return res, true
		}
	}
	if res, ok := b.attributes(path); ok {
		return res, true
	}
	if res, ok := b.otherSystem(path); ok {
		return res, true
	}
	return b.network().Read(path)
}

func (b *BMC) network() hardware.Network {
	return hardware.Network{Personality: b.p, MACs: b.cfg.System.MACs}
}

func (b *BMC) systemPaths() []string {
	paths := []string{b.SystemPath()}
	for i := 1; i < b.p.Quirks.Systems; i++ {
		paths = append(paths, fmt.Sprintf("%s/other-%d", pathSystems, i))
	}
	return paths
}

// otherSystem returns an additional system, which is off and rejects writes. A bare BMC only lists
// it.
func (b *BMC) otherSystem(path string) (object, bool) {
	if b.p.Bare() || !slices.Contains(b.systemPaths()[1:], path) {
		return nil, false
	}
	res := resource.New(path, "ComputerSystem.v1_20_0", "Other System")
	res["SystemType"], res["PowerState"], res["UUID"] = "Physical", "Off", nil
	return res, true
}

func (b *BMC) manager() object {
	path := b.p.Manager()
	res := resource.New(path, "Manager.v1_19_0", "Manager")
	res["ManagerType"], res["FirmwareVersion"], res["UUID"] = "BMC", b.p.BMCFirmware, b.cfg.System.BMCUUID
	res["Links"] = object{"ManagerForServers": []object{resource.Ref(b.SystemPath())}}
	if b.services == nil {
		return res
	}
	reset := object{"target": path + "/Actions/Manager.Reset"}
	if len(b.p.ManagerResetTypes) > 0 {
		reset["ResetType@Redfish.AllowableValues"] = b.p.ManagerResetTypes
	}
	res["Actions"], res["Status"] = object{"#Manager.Reset": reset}, resource.Health("OK")
	b.services.linkManager(res)
	b.linkAttributes(res)
	return res
}

func notFound(w http.ResponseWriter, path string) {
	resource.Fail(http.StatusNotFound, "ResourceMissingAtURI", "no resource at "+path).Send(w)
}

func unauthorized(w http.ResponseWriter) {
	resource.Fail(http.StatusUnauthorized, "NoValidSession", "There is no valid session established with the implementation.").Send(w)
}

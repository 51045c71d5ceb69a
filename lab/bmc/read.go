// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
)

// resource is a Redfish resource as JSON.
type resource map[string]any

const (
	pathRoot    = "/redfish/v1"
	pathSystems = pathRoot + "/Systems"
	pathManager = pathRoot + "/Managers/1"
	pathChassis = pathRoot + "/Chassis/1"
)

// resetTypes allowed; by default those that the emulator knows (DSP0268,
// Resource.ResetType).
func (b *BMC) resetTypes() []string {
	if len(b.cfg.Quirks.ResetTypes) > 0 {
		return b.cfg.Quirks.ResetTypes
	}
	return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "PowerCycle", "ForceOn"}
}

// read answers GET and HEAD.
func (b *BMC) read(w http.ResponseWriter, r *http.Request, f Faults) {
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch path {
	case "/redfish":
		writeJSON(w, http.StatusOK, resource{"v1": pathRoot + "/"})
		return
	case pathRoot:
		writeJSON(w, http.StatusOK, b.root())
		return
	}
	if !b.authorized(r) {
		unauthorized(w)
		return
	}
	if path == b.SystemPath() || path == b.SystemPath()+"/SD" || path == b.SystemPath()+"/Settings" {
		b.readSystem(w, path, f)
		return
	}
	if b.cfg.Quirks.BrokenInterface && len(b.cfg.System.MACs) > 0 && path == b.interfacePath(0) {
		writeError(w, http.StatusInternalServerError, "Base.1.16.InternalError", "interface 1 cannot be read")
		return
	}
	res, ok := b.lookup(path)
	if !ok {
		notFound(w, path)
		return
	}
	writeJSON(w, http.StatusOK, res)
}

func (b *BMC) root() resource {
	return resource{
		"@odata.id": pathRoot + "/", "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot",
		"Id": "RootService", "Name": "Root Service", "RedfishVersion": "1.17.0",
		"UUID": b.cfg.System.BMCUUID, "Vendor": b.cfg.System.Manufacturer,
		"Systems": ref(pathSystems), "Managers": ref(pathRoot + "/Managers"), "Chassis": ref(pathRoot + "/Chassis"),
		"SessionService": ref(pathRoot + "/SessionService"),
		"Links":          resource{"Sessions": ref(pathSessions)},
	}
}

// lookup finds the resources that need neither faults nor headers.
func (b *BMC) lookup(path string) (resource, bool) {
	switch path {
	case pathSystems:
		return collection(path, "ComputerSystem", b.systemPaths()), true
	case pathRoot + "/Managers":
		return collection(path, "Manager", []string{pathManager}), true
	case pathManager:
		return resource{
			"@odata.id": path, "@odata.type": "#Manager.v1_19_0.Manager", "Id": "1", "Name": "Manager",
			"ManagerType": "BMC", "FirmwareVersion": b.cfg.System.BMCFirmware, "UUID": b.cfg.System.BMCUUID,
			"Links": resource{"ManagerForServers": []resource{ref(b.SystemPath())}},
		}, true
	case pathRoot + "/Chassis":
		return collection(path, "Chassis", []string{pathChassis}), true
	case pathChassis:
		return resource{
			"@odata.id": path, "@odata.type": "#Chassis.v1_25_0.Chassis", "Id": "1", "Name": "Chassis",
			"ChassisType": "RackMount", "SerialNumber": b.cfg.System.Serial,
			"Links": resource{"ComputerSystems": []resource{ref(b.SystemPath())}},
		}, true
	case pathRoot + "/SessionService":
		return resource{
			"@odata.id": path, "@odata.type": "#SessionService.v1_1_9.SessionService", "Id": "SessionService",
			"Name": "Session Service", "ServiceEnabled": true, "SessionTimeout": 1800, "Sessions": ref(pathSessions),
		}, true
	case pathSessions:
		return collection(path, "Session", b.sessionPaths()), true
	case b.SystemPath() + "/ResetActionInfo":
		return resource{
			"@odata.id": path, "@odata.type": "#ActionInfo.v1_4_0.ActionInfo", "Id": "ResetActionInfo", "Name": "Reset Action Info",
			"Parameters": []resource{{"Name": "ResetType", "Required": true, "AllowableValues": b.resetTypes()}},
		}, true
	}
	if slices.Contains(b.sessionPaths(), path) {
		return sessionResource(strings.TrimPrefix(path, pathSessions+"/"), b.cfg.Username), true
	}
	return b.lookupNetwork(path)
}

// lookupNetwork finds the resources that show MAC addresses.
func (b *BMC) lookupNetwork(path string) (resource, bool) {
	q, macs := b.cfg.Quirks, b.cfg.System.MACs
	if !q.NoEthernetInterfaces {
		if path == b.SystemPath()+"/EthernetInterfaces" {
			members := make([]string, len(macs))
			for i := range macs {
				members[i] = b.interfacePath(i)
			}
			return collection(path, "EthernetInterface", members), true
		}
		for i, mac := range macs {
			if path == b.interfacePath(i) {
				return resource{
					"@odata.id": path, "@odata.type": "#EthernetInterface.v1_12_0.EthernetInterface",
					"Id": fmt.Sprint(i + 1), "Name": "Ethernet Interface",
					"PermanentMACAddress": strings.ToUpper(mac), "MACAddress": strings.ToUpper(mac), "SpeedMbps": 10000,
				}, true
			}
		}
	}
	if !q.NetworkAdapters {
		return nil, false
	}
	functions := b.SystemPath() + "/NetworkInterfaces/1/NetworkDeviceFunctions"
	switch path {
	case b.SystemPath() + "/NetworkInterfaces":
		return collection(path, "NetworkInterface", []string{path + "/1"}), true
	case b.SystemPath() + "/NetworkInterfaces/1":
		return resource{"@odata.id": path, "Id": "1", "Name": "Network Interface", "NetworkDeviceFunctions": ref(functions)}, true
	case functions:
		members := make([]string, len(macs))
		for i := range macs {
			members[i] = fmt.Sprintf("%s/%d", functions, i+1)
		}
		return collection(path, "NetworkDeviceFunction", members), true
	}
	for i, mac := range macs {
		if path == fmt.Sprintf("%s/%d", functions, i+1) {
			return resource{"@odata.id": path, "Id": fmt.Sprint(i + 1), "Name": "Function",
				"Ethernet": resource{"PermanentMACAddress": mac}}, true
		}
	}
	return nil, false
}

func (b *BMC) interfacePath(i int) string {
	return fmt.Sprintf("%s/EthernetInterfaces/%d", b.SystemPath(), i+1)
}

func (b *BMC) systemPaths() []string {
	paths := []string{b.SystemPath()}
	for i := 1; i < b.cfg.Quirks.Systems; i++ {
		paths = append(paths, fmt.Sprintf("%s/other-%d", pathSystems, i))
	}
	return paths
}

func ref(path string) resource { return resource{"@odata.id": path} }

// collection lists members in no particular order, as real ones do.
func collection(path, kind string, members []string) resource {
	refs := make([]resource, len(members))
	for i, j := range rand.Perm(len(members)) {
		refs[i] = ref(members[j])
	}
	return resource{
		"@odata.id": path, "@odata.type": "#" + kind + "Collection." + kind + "Collection", "Name": kind + " Collection",
		"Members": refs, "Members@odata.count": len(refs),
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OData-Version", "4.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}

// writeError answers in the form of DSP0266, error responses.
func writeError(w http.ResponseWriter, status int, messageID, message string) {
	writeJSON(w, status, resource{"error": resource{
		"code": "Base.1.16.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []resource{{"MessageId": messageID, "Message": message, "Severity": "Critical"}},
	}})
}

func notFound(w http.ResponseWriter, path string) {
	writeError(w, http.StatusNotFound, "Base.1.16.ResourceMissingAtURI", "no resource at "+path)
}

func unauthorized(w http.ResponseWriter) {
	writeError(w, http.StatusUnauthorized, "Base.1.16.NoValidSession", "There is no valid session established with the implementation.")
}

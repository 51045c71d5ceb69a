// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// readSystem answers with the system, or with its settings resource, which shows
// the boot override alone.
func (b *BMC) readSystem(w http.ResponseWriter, path string, f Faults) {
	q := b.cfg.Quirks
	if (strings.HasSuffix(path, "/SD") && !q.BootFutureState) || (strings.HasSuffix(path, "/Settings") && !q.BootSettingsURI) {
		notFound(w, path)
		return
	}
	if q.ETag || q.BootFutureState {
		tag := b.tag()
		if q.GzipETag {
			tag = strings.TrimSuffix(tag, `"`) + `-gzip"`
		}
		w.Header().Set("ETag", tag)
	}
	if path != b.SystemPath() {
		writeJSON(w, http.StatusOK, resource{"@odata.id": path, "Id": "Settings", "Name": "Settings", "Boot": b.boot()})
		return
	}
	writeJSON(w, http.StatusOK, b.system(f))
}

func (b *BMC) tag() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%q", fmt.Sprint("v", b.etag))
}

func (b *BMC) system(f Faults) resource {
	s, q, path := b.cfg.System, b.cfg.Quirks, b.SystemPath()
	reset := resource{"target": path + "/Actions/ComputerSystem.Reset"}
	switch {
	case q.ResetTypesByActionInfo:
		reset["@Redfish.ActionInfo"] = path + "/ResetActionInfo"
	case !q.NoAllowableValues:
		reset["ResetType@Redfish.AllowableValues"] = b.resetTypes()
	}
	res := resource{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_20_0.ComputerSystem", "Id": q.SystemID, "Name": "System",
		"SystemType": "Physical", "UUID": strings.ToUpper(s.UUID), "SerialNumber": s.Serial,
		"Manufacturer": s.Manufacturer, "Model": s.Model, "PowerState": b.powerState(f), "Boot": b.boot(),
		"ProcessorSummary": resource{"Count": 1, "CoreCount": s.Cores},
		"MemorySummary":    resource{"TotalSystemMemoryGiB": float64(s.MemoryBytes) / (1 << 30)},
		"Actions":          resource{"#ComputerSystem.Reset": reset},
		"Links":            resource{"ManagedBy": []resource{ref(pathManager)}, "Chassis": []resource{ref(pathChassis)}},
	}
	if !q.NoEthernetInterfaces {
		res["EthernetInterfaces"] = ref(path + "/EthernetInterfaces")
	}
	if q.NetworkAdapters {
		res["NetworkInterfaces"] = ref(path + "/NetworkInterfaces")
	}
	if q.BootSettingsURI {
		res["@Redfish.Settings"] = resource{"SettingsObject": ref(path + "/Settings")}
	}
	return res
}

func (b *BMC) powerState(f Faults) string {
	on := b.cfg.Machine.Powered()
	switch f.PowerLie {
	case Opposite:
		on = !on
	case Stale:
		b.mu.Lock()
		on = b.stalePower
		b.mu.Unlock()
	}
	if on {
		return "On"
	}
	return "Off"
}

func (b *BMC) boot() resource {
	boot := b.cfg.Machine.Boot()
	res := resource{
		"BootSourceOverrideEnabled":                        boot.Enabled,
		"BootSourceOverrideTarget":                         boot.Target,
		"BootSourceOverrideTarget@Redfish.AllowableValues": []Target{TargetNone, TargetPXE, TargetDisk},
	}
	if !b.cfg.Quirks.NoBootMode {
		res["BootSourceOverrideMode"] = boot.Mode
	}
	return res
}

// write does what POST, PATCH and DELETE ask, and says what it was about.
func (b *BMC) write(w http.ResponseWriter, r *http.Request, f Faults) string {
	path := strings.TrimSuffix(r.URL.Path, "/")
	if path == pathSessions && r.Method == http.MethodPost {
		b.login(w, r)
		return ActionLogin
	}
	if !b.authorized(r) {
		unauthorized(w)
		return ""
	}
	system := b.SystemPath()
	switch {
	case r.Method == http.MethodDelete && strings.HasPrefix(path, pathSessions+"/"):
		b.logout(w, path)
		return ActionLogout
	case r.Method == http.MethodPost && path == system+"/Actions/ComputerSystem.Reset":
		return b.reset(w, r)
	case r.Method == http.MethodPatch && (path == system || path == system+"/SD" || path == system+"/Settings"):
		return b.patch(w, r, path, f)
	}
	writeError(w, http.StatusMethodNotAllowed, "Base.1.16.OperationNotAllowed", "not allowed here")
	return ""
}

// actionOf maps ResetType to what the machine is asked.
func actionOf(resetType string) (Action, bool) {
	switch resetType {
	case "On", "ForceOn":
		return On, true
	case "ForceOff":
		return Off, true
	case "GracefulShutdown":
		return Shutdown, true
	case "GracefulRestart":
		return Reboot, true
	case "ForceRestart", "PowerCycle":
		return Reset, true
	}
	return "", false
}

func (b *BMC) reset(w http.ResponseWriter, r *http.Request) string {
	var body struct{ ResetType string }
	if !decode(w, r, &body) {
		return ""
	}
	action, ok := actionOf(body.ResetType)
	if !ok || !slices.Contains(b.resetTypes(), body.ResetType) {
		writeError(w, http.StatusBadRequest, "Base.1.16.ActionParameterValueNotInList", "ResetType is not in the list")
		return "Reset " + body.ResetType
	}
	if err := b.cfg.Machine.Power(r.Context(), action); err != nil {
		writeError(w, http.StatusInternalServerError, "Base.1.16.InternalError", err.Error())
		return "Reset " + body.ResetType
	}
	w.WriteHeader(http.StatusNoContent)
	return "Reset " + body.ResetType
}

// bootPatch is the part of a PATCH that the emulator understands.
type bootPatch struct {
	Enabled *Persistence `json:"BootSourceOverrideEnabled"`
	Target  *Target      `json:"BootSourceOverrideTarget"`
	Mode    *Mode        `json:"BootSourceOverrideMode"`
	// HTTPBootURI is known only to be refused when empty (iLO).
	HTTPBootURI *string `json:"HttpBootUri"`
}

func (b *BMC) patch(w http.ResponseWriter, r *http.Request, path string, f Faults) string {
	var body struct{ Boot *bootPatch }
	if !decode(w, r, &body) {
		return ""
	}
	if body.Boot == nil {
		writeError(w, http.StatusBadRequest, "Base.1.16.PropertyUnknown", "only Boot can be written")
		return ""
	}
	if status, id, message := b.refuse(r, path, *body.Boot); status != 0 {
		writeError(w, status, id, message)
		return "Boot"
	}
	boot := body.Boot.apply(b.cfg.Machine.Boot(), b.cfg.Quirks)
	if !f.ForgetBoot {
		b.cfg.Machine.SetBoot(boot)
		b.mu.Lock()
		b.etag++
		b.mu.Unlock()
	}
	w.WriteHeader(http.StatusNoContent)
	return fmt.Sprintf("Boot %s %s %s", boot.Enabled, boot.Target, boot.Mode)
}

// refuse plays the quirks; status 0 lets the patch pass.
func (b *BMC) refuse(r *http.Request, path string, p bootPatch) (status int, id, message string) {
	q, onSystem := b.cfg.Quirks, path == b.SystemPath()
	tagged := q.ETag || (q.BootFutureState && !onSystem)
	switch {
	case onSystem && q.BootFutureState:
		return http.StatusBadRequest, "Base.1.16.OperationSupportedInFutureStateURI", "set it at the future state URI"
	case onSystem && q.BootSettingsURI:
		return http.StatusBadRequest, "Base.1.16.PropertyNotWritable", "Boot is read-only here"
	case !onSystem && !strings.HasSuffix(path, "/SD") && !q.BootSettingsURI, strings.HasSuffix(path, "/SD") && !q.BootFutureState:
		return http.StatusNotFound, "Base.1.16.ResourceMissingAtURI", "no such resource"
	case tagged && r.Header.Get("If-Match") == "":
		return http.StatusPreconditionRequired, "Base.1.16.PreconditionRequired", "If-Match is missing"
	case tagged && r.Header.Get("If-Match") != b.tag():
		return http.StatusPreconditionFailed, "Base.1.16.PreconditionFailed", "the ETag is another's"
	case p.HTTPBootURI != nil && *p.HTTPBootURI == "":
		return http.StatusBadRequest, "Base.1.16.PropertyValueFormatError", "HttpBootUri is empty"
	case p.Mode != nil && q.NoBootMode:
		return http.StatusBadRequest, "Base.1.16.PropertyUnknown", "BootSourceOverrideMode is unknown"
	case p.Mode != nil && q.FixedBootMode && *p.Mode != b.cfg.Machine.Boot().Mode:
		return http.StatusBadRequest, "Base.1.16.PropertyNotWritable", "BootSourceOverrideMode is read-only"
	case p.Enabled == nil && q.NeedEnabled:
		return http.StatusBadRequest, "Base.1.16.PropertyMissing", "BootSourceOverrideEnabled is missing"
	case q.NeedWholeBoot && (p.Enabled == nil || p.Mode == nil || p.Target == nil):
		return http.StatusBadRequest, "Base.1.16.PropertyMissing", "mode, enabled and target go together"
	case q.NoTargetNone && p.Enabled != nil && p.Target != nil && *p.Target == TargetNone:
		return http.StatusBadRequest, "Base.1.16.PropertyValueConflict", "Enabled with target None"
	case p.Target != nil && !slices.Contains([]Target{TargetNone, TargetPXE, TargetDisk}, *p.Target):
		return http.StatusBadRequest, "Base.1.16.PropertyValueNotInList", "BootSourceOverrideTarget is not in the list"
	case p.Enabled != nil && !slices.Contains([]Persistence{Disabled, Once, Continuous}, *p.Enabled):
		return http.StatusBadRequest, "Base.1.16.PropertyValueNotInList", "BootSourceOverrideEnabled is not in the list"
	case p.Mode != nil && *p.Mode != UEFI && *p.Mode != Legacy:
		return http.StatusBadRequest, "Base.1.16.PropertyValueNotInList", "BootSourceOverrideMode is not in the list"
	}
	return 0, "", ""
}

func (p bootPatch) apply(boot Boot, q Quirks) Boot {
	if p.Enabled != nil {
		boot.Enabled = *p.Enabled
	}
	if p.Target != nil {
		boot.Target = *p.Target
	}
	switch {
	case p.Mode != nil:
		boot.Mode = *p.Mode
	case q.ForgetBootMode:
		boot.Mode = Legacy
	}
	if boot.Enabled == Disabled {
		boot.Target = TargetNone
	}
	return boot
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		writeError(w, http.StatusBadRequest, "Base.1.16.MalformedJSON", "the body is not JSON")
		return false
	}
	return true
}

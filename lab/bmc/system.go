// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// isSystem reports whether a path is the system's or has its boot override.
func (b *BMC) isSystem(path string) bool {
	tail, ok := strings.CutPrefix(path, b.SystemPath())
	return ok && (tail == "" || tail == "/SD" || tail == "/Settings")
}

// readSystem answers with the system or with its settings resource, which has only the boot
// override.
func (b *BMC) readSystem(w http.ResponseWriter, r *http.Request, path string, f Faults) {
	q := b.p.Quirks
	if (strings.HasSuffix(path, "/SD") && !q.BootFutureState) || (strings.HasSuffix(path, "/Settings") && !q.BootSettingsURI) {
		notFound(w, path)
		return
	}
	if q.ETag || q.BootFutureState || b.services != nil {
		b.sendTag(w, r, b.tag())
	}
	if path != b.SystemPath() {
		resource.Send(w, http.StatusOK, object{"@odata.id": path, "Id": "Settings", "Name": "Settings", "Boot": b.boot(true)})
		return
	}
	res := b.system(f)
	if q.BootOnlyInSettings {
		res["Boot"] = object{"BootOrder": []string{}}
	}
	b.showTag(res, b.tag())
	resource.Send(w, http.StatusOK, res)
}

// showTag adds the ETag to the resource if this BMC does that.
func (b *BMC) showTag(res object, tag string) {
	if b.p.Quirks.TagInBody {
		res["@odata.etag"] = tag
	}
}

// tag returns the ETag of the system, which changes only with its settings.
func (b *BMC) tag() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%q", fmt.Sprint("v", b.etag))
}

// tagOf returns the ETag that a PATCH of a resource must match.
func (b *BMC) tagOf(res object) string {
	tag := resource.Tag(res)
	if q := b.p.Quirks; q.WeakTag || q.WeakByGzip {
		return strings.TrimPrefix(tag, "W/")
	}
	return tag
}

// sendTag sends an ETag in the format of this BMC.
func (b *BMC) sendTag(w http.ResponseWriter, r *http.Request, tag string) {
	q := b.p.Quirks
	switch {
	case q.AnyTag:
		return
	case q.GzipETag:
		tag = strings.TrimSuffix(tag, `"`) + `-gzip"`
	case q.TagInBody:
		tag = `"` + tag + `"`
	case q.WeakTag, q.WeakByGzip && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
		tag = "W/" + strings.TrimPrefix(tag, "W/")
	}
	w.Header().Set("ETag", tag)
}

func (b *BMC) system(f Faults) object {
	s, q, path := b.cfg.System, b.p.Quirks, b.SystemPath()
	reset := object{"target": path + "/Actions/ComputerSystem.Reset"}
	switch {
	case q.ResetTypesByActionInfo:
		reset["@Redfish.ActionInfo"] = path + "/ResetActionInfo"
	case !q.NoAllowableValues:
		reset["ResetType@Redfish.AllowableValues"] = b.resetTypes()
	}
	res := resource.New(path, "ComputerSystem.v1_20_0", "System")
	res["SystemType"], res["UUID"], res["SerialNumber"] = "Physical", b.uuid(), s.Serial
	res["Manufacturer"], res["Model"], res["PowerState"] = s.Manufacturer, s.Model, b.powerState(f)
	res["Boot"] = b.boot(!q.BootSettingsURI || b.p.Bare())
	res["ProcessorSummary"] = object{"Count": 1, "CoreCount": s.Cores}
	res["MemorySummary"] = object{"TotalSystemMemoryGiB": float64(s.MemoryBytes) / (1 << 30)}
	res["Actions"] = object{"#ComputerSystem.Reset": reset}
	res["Links"] = object{"ManagedBy": []object{resource.Ref(b.p.Manager())}, "Chassis": []object{resource.Ref(b.p.Chassis())}}
	if !q.NoEthernetInterfaces || q.BMCInterface {
		res["EthernetInterfaces"] = resource.Ref(path + "/EthernetInterfaces")
	}
	if q.NetworkAdapters {
		res["NetworkInterfaces"] = resource.Ref(path + "/NetworkInterfaces")
	}
	if q.BootSettingsURI {
		res["@Redfish.Settings"] = object{"SettingsObject": resource.Ref(path + "/Settings")}
	}
	if b.services != nil {
		b.services.linkSystem(res)
		b.indicate(res)
	}
	return res
}

func (b *BMC) indicate(res object) {
	lit := b.Lit()
	switch {
	case !b.p.OldLED:
		res["LocationIndicatorActive"] = lit
	case lit:
		res["IndicatorLED"] = "Blinking"
	default:
		res["IndicatorLED"] = "Off"
	}
}

// uuid returns the UUID of the system in the format of this BMC: Redfish and SMBIOS differ in
// case, and some BMCs swap the bytes of the first three fields.
func (b *BMC) uuid() string {
	id := strings.ToUpper(b.cfg.System.UUID)
	if b.p.Quirks.SwapUUID && len(id) == 36 {
		at := func(order ...int) (s string) {
			for _, i := range order {
				s += id[i : i+2]
			}
			return s
		}
		id = at(6, 4, 2, 0) + "-" + at(11, 9) + "-" + at(16, 14) + id[18:]
	}
	if b.p.Quirks.LowerUUID {
		return strings.ToLower(id)
	}
	return id
}

// write handles POST, PATCH and DELETE and returns a description for the log.
func (b *BMC) write(w http.ResponseWriter, r *http.Request, f Faults) string {
	if b.isWeb(r) {
		return b.services.web.Serve(w, r)
	}
	if b.isPush(r) {
		if !b.sessions.Authorized(r.Header) {
			unauthorized(w)
			return ""
		}
		var a resource.Answer
		if strings.TrimSuffix(r.URL.Path, "/") == b.p.HTTPPush {
			a = b.services.update.HTTPPush(r)
		} else {
			a = b.services.update.Push(r)
		}
		a.Send(w)
		return a.Action
	}
	req, ok := understood(w, r)
	if !ok {
		return ""
	}
	if !strings.HasPrefix(req.Path, "/redfish") {
		notFound(w, req.Path)
		return ""
	}
	if req.Is(http.MethodPost, pathSessions) && !b.p.Quirks.BasicOnly {
		a, token := b.sessions.Login(req, f.SessionsFull)
		if token != "" {
			w.Header().Set("X-Auth-Token", token)
		}
		a.Send(w)
		return a.Action
	}
	if !b.sessions.Authorized(r.Header) {
		unauthorized(w)
		return ""
	}
	a, free := b.sessions.MustChange(req.Path)
	if free {
		a = b.dispatch(req, f)
	}
	if b.p.Quirks.ErrorsByID {
		a = a.ByID()
	}
	a.Send(w)
	return a.Action
}

// isWeb reports whether a request is for the web interface of Supermicro boards.
func (b *BMC) isWeb(r *http.Request) bool {
	return b.services != nil && b.services.web != nil && b.services.web.Owns(r.URL.Path)
}

// isPush reports whether a request contains an image.
func (b *BMC) isPush(r *http.Request) bool {
	path := strings.TrimSuffix(r.URL.Path, "/")
	return b.services != nil && r.Method == http.MethodPost && path != "" && (path == b.p.PushPath || path == b.p.HTTPPush) ||
		b.isWeb(r) && b.services.web.Uploads(r)
}

func understood(w http.ResponseWriter, r *http.Request) (resource.Request, bool) {
	body, err := io.ReadAll(r.Body) // bounded by ServeHTTP
	if err != nil {
		resource.Fail(http.StatusBadRequest, "MalformedJSON", "the body cannot be read").Send(w)
		return resource.Request{}, false
	}
	return resource.Request{Method: r.Method, Path: strings.TrimSuffix(r.URL.Path, "/"), Header: r.Header, Body: body}, true
}

// dispatch passes a write to its service.
func (b *BMC) dispatch(r resource.Request, f Faults) resource.Answer {
	if r.Method == http.MethodPatch && b.isSystem(r.Path) {
		return b.patch(r, f)
	}
	if r.Is(http.MethodPost, b.SystemPath()+"/Actions/ComputerSystem.Reset") {
		return b.reset(r)
	}
	if b.services != nil {
		if a, ok := b.precondition(r); !ok {
			return a
		}
		switch {
		case b.p.Quirks.ErrorsByID && r.Method == http.MethodPatch && strings.HasPrefix(r.Path, b.SystemPath()+"/") && b.inPOST():
			return resource.FailByID(http.StatusBadRequest, postID)
		case r.Is(http.MethodPost, b.p.Manager()+"/Actions/Manager.Reset"):
			return b.resetManager(r)
		case b.p.Quirks.PhysicalCD && r.Is(http.MethodPatch, b.attributesPath()):
			return b.patchAttributes(r, f)
		}
	}
	if a, ok := b.sessions.Write(r); ok {
		return a
	}
	if b.services != nil {
		if a, ok := b.services.write(r); ok {
			return a
		}
	}
	return resource.Fail(http.StatusMethodNotAllowed, "OperationNotAllowed", "not allowed here")
}

// precondition checks If-Match of a PATCH against the current ETag (DSP0266, ETags), which some
// BMCs require.
func (b *BMC) precondition(r resource.Request) (resource.Answer, bool) {
	if r.Method != http.MethodPatch {
		return resource.Answer{}, true
	}
	have := r.Header.Get("If-Match")
	q := b.p.Quirks
	bios := strings.HasPrefix(r.Path, b.SystemPath()+"/Bios")
	if have == "" {
		if q.ETag || q.AnyTag || q.SettingsETag && bios {
			return resource.Fail(http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is missing"), false
		}
		return resource.Answer{}, true
	}
	res, ok := b.lookup(r.Path)
	if ok && have != "*" && (have != b.tagOf(res) || q.NoWeakTag && strings.HasPrefix(have, "W/")) {
		return resource.Fail(http.StatusPreconditionFailed, "PreconditionFailed", "the ETag is another's"), false
	}
	return resource.Answer{}, true
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// targets returns the boot targets of this BMC.
func (b *BMC) targets() []string {
	if b.p.Bare() {
		return []string{string(TargetNone), string(TargetPXE), string(TargetDisk)}
	}
	return b.p.Targets
}

// modes returns the boot modes of this BMC.
func (b *BMC) modes() []string {
	if b.p.Bare() {
		return []string{string(UEFI), string(Legacy)}
	}
	return b.p.Modes
}

// boot returns the Boot object. iDRAC10 has the allowable values only on the writable resource.
func (b *BMC) boot(values bool) object {
	boot := shownOverride(b.cfg.Machine.Boot(), b.p.Quirks)
	res := object{"BootSourceOverrideEnabled": boot.Enabled, "BootSourceOverrideTarget": boot.Target}
	if values {
		res["BootSourceOverrideTarget@Redfish.AllowableValues"] = b.targets()
	}
	if !b.p.Quirks.NoBootMode {
		res["BootSourceOverrideMode"] = boot.Mode
	}
	if b.p.Bare() {
		return res
	}
	if values {
		res["BootSourceOverrideEnabled@Redfish.AllowableValues"] = []Persistence{Disabled, Once, Continuous}
		if !b.p.Quirks.NoBootMode {
			res["BootSourceOverrideMode@Redfish.AllowableValues"] = b.p.Modes
		}
	}
	if !b.p.NoHTTPBootURI {
		res["HttpBootUri"] = nil
		if boot.HTTPBootURI != "" {
			res["HttpBootUri"] = boot.HTTPBootURI
		}
	}
	return res
}

// shownOverride returns the setting as the override shows it, which has no name for the virtual
// drive.
func shownOverride(boot Boot, q Quirks) Boot {
	switch {
	case boot.Target == TargetLocalCD:
		boot.Target = TargetCD
	case boot.Target == TargetCD && q.PhysicalCD:
		boot.Enabled, boot.Target = Disabled, TargetNone
	}
	return boot
}

// bootPatch is the part of a PATCH that the emulator understands.
type bootPatch struct {
	Enabled     *Persistence `json:"BootSourceOverrideEnabled"`
	Target      *Target      `json:"BootSourceOverrideTarget"`
	Mode        *Mode        `json:"BootSourceOverrideMode"`
	HTTPBootURI *string      `json:"HttpBootUri"`
}

func (b *BMC) patch(r resource.Request, f Faults) resource.Answer {
	var body struct {
		Boot  *bootPatch
		LED   *string `json:"IndicatorLED"`
		Light *bool   `json:"LocationIndicatorActive"`
	}
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	switch {
	case b.services == nil || r.Path != b.SystemPath():
	case b.p.OldLED && body.LED != nil && body.Boot == nil:
		return b.light(r, *body.LED != "Off", slices.Contains([]string{"Lit", "Blinking", "Off"}, *body.LED))
	case !b.p.OldLED && body.Light != nil && body.Boot == nil:
		return b.light(r, *body.Light, true)
	}
	if body.Boot == nil {
		return resource.Fail(http.StatusBadRequest, "PropertyUnknown", "only Boot can be written")
	}
	if status, id, message := b.refuse(r, *body.Boot); status != 0 {
		return resource.Fail(status, id, message).Named("Boot")
	}
	boot := body.Boot.apply(b.cfg.Machine.Boot(), b.p.Quirks)
	if !f.ForgetBoot {
		b.cfg.Machine.SetBoot(boot)
		b.mu.Lock()
		b.etag++
		b.mu.Unlock()
	}
	return resource.Done(fmt.Sprintf("Boot %s %s %s", boot.Enabled, boot.Target, boot.Mode))
}

func (b *BMC) light(r resource.Request, lit, known bool) resource.Answer {
	if status, id, message := b.refuseTag(r); status != 0 {
		return resource.Fail(status, id, message).Named("Indicator")
	}
	if !known {
		return resource.Fail(http.StatusBadRequest, "PropertyValueNotInList", "IndicatorLED is not in the list").Named("Indicator")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lit = lit
	return resource.Done("Indicator")
}

// refuseTag checks If-Match on the system; status 0 accepts it.
func (b *BMC) refuseTag(r resource.Request) (status int, id, message string) {
	q, have := b.p.Quirks, r.Header.Get("If-Match")
	needed := q.ETag || q.AnyTag || (q.BootFutureState && r.Path != b.SystemPath())
	switch {
	case needed && have == "":
		return http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is missing"
	case have != "*" && (needed || b.services != nil && have != "") && have != b.tag():
		return http.StatusPreconditionFailed, "PreconditionFailed", "the ETag is another's"
	}
	return 0, "", ""
}

// refuse applies the quirks of boot overrides; status 0 accepts the patch.
func (b *BMC) refuse(r resource.Request, p bootPatch) (status int, id, message string) {
	q, onSystem := b.p.Quirks, r.Path == b.SystemPath()
	sd := strings.HasSuffix(r.Path, "/SD")
	switch {
	case onSystem && q.BootFutureState && b.p.Bare():
		return http.StatusBadRequest, "OperationSupportedInFutureStateURI", "set it at the future state URI"
	case onSystem && q.BootFutureState:
		return http.StatusBadRequest, "Ami.1.0.OperationSupportedInFutureStateURI",
			"Support of this Operation for Boot Properties is moved to FutureState URI(" + r.Path + "/SD)"
	case onSystem && q.BootSettingsURI && b.p.Bare():
		return http.StatusBadRequest, "PropertyNotWritable", "Boot is read-only here"
	case onSystem && q.BootSettingsURI:
		return http.StatusBadRequest, "Base.1.18.PropertyNotWritable", "The property Boot is a read-only property and cannot be assigned a value."
	case !onSystem && !sd && !q.BootSettingsURI, sd && !q.BootFutureState:
		return http.StatusNotFound, "ResourceMissingAtURI", "no such resource"
	}
	if status, id, message := b.refuseTag(r); status != 0 {
		return status, id, message
	}
	if status, id, message := b.refuseForm(p); status != 0 {
		return status, id, message
	}
	if status, id, message := b.refuseValues(p); status != 0 {
		return status, id, message
	}
	if b.inPOST() {
		id := "ResourceCannotBeUpdated"
		if b.p.Quirks.ErrorsByID {
			id = postID
		}
		return http.StatusBadRequest, id, "The boot order cannot be changed while the system is in POST."
	}
	return 0, "", ""
}

// postID is iLO's message for a change during the power-on self-test.
const postID = "iLO.2.37.UnableToModifyDuringSystemPOST"

// inPOST reports whether a change is refused because the server has just started, and counts it.
func (b *BMC) inPOST() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.refusals == 0 || !b.cfg.Machine.Powered() {
		return false
	}
	b.refusals--
	return true
}

// refuseForm applies the quirks about combinations of properties.
func (b *BMC) refuseForm(p bootPatch) (status int, id, message string) {
	q, mode := b.p.Quirks, b.cfg.Machine.Boot().Mode
	switch {
	case p.HTTPBootURI != nil && *p.HTTPBootURI == "" && (b.p.Bare() || q.NoEmptyHTTPBootURI):
		return http.StatusBadRequest, "PropertyValueFormatError", "HttpBootUri is empty"
	case p.HTTPBootURI != nil && b.p.NoHTTPBootURI:
		return http.StatusBadRequest, "PropertyUnknown", "HttpBootUri is unknown"
	case p.Mode != nil && q.NoBootMode:
		return http.StatusBadRequest, "PropertyUnknown", "BootSourceOverrideMode is unknown"
	case p.Mode != nil && q.BootModeByJob && *p.Mode != mode:
		return http.StatusBadRequest, "IDRAC.2.8.SYS410", "Unable to modify the attribute because the attribute is read-only and depends on other attributes."
	case p.Mode != nil && q.FixedBootMode && (b.p.Bare() && *p.Mode != mode || !b.p.Bare()):
		// The bare BMC accepts the current value; a real iLO refuses the property
		// (community.general #3509).
		return http.StatusBadRequest, "PropertyNotWritable", "BootSourceOverrideMode is read-only"
	case p.Enabled == nil && q.NeedEnabled:
		return http.StatusBadRequest, "PropertyMissing", "BootSourceOverrideEnabled is missing"
	case q.NeedWholeBoot && (p.Enabled == nil || p.Mode == nil || p.Target == nil):
		return http.StatusBadRequest, "PropertyMissing", "mode, enabled and target go together"
	case q.NoTargetNone && p.Enabled != nil && p.Target != nil && *p.Target == TargetNone:
		return http.StatusBadRequest, "PropertyValueConflict", "Enabled with target None"
	}
	return 0, "", ""
}

func (b *BMC) refuseValues(p bootPatch) (status int, id, message string) {
	switch {
	case p.Target != nil && !slices.Contains(b.targets(), string(*p.Target)):
		return http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideTarget is not in the list"
	case p.Enabled != nil && !slices.Contains([]Persistence{Disabled, Once, Continuous}, *p.Enabled):
		return http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideEnabled is not in the list"
	case p.Mode != nil && !slices.Contains(b.modes(), string(*p.Mode)):
		return http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideMode is not in the list"
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
	if p.HTTPBootURI != nil {
		boot.HTTPBootURI = *p.HTTPBootURI
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
	if boot.Target == TargetCD && q.PhysicalCD {
		boot.Target = TargetLocalCD
	}
	return boot
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// trait names a deviation of a BMC. The table quirks lists which BMC has it.
type trait string

const (
	// cutGzipTag: the BMC appends "-gzip" to ETags and accepts them only without.
	cutGzipTag trait = "cutGzipTag"
	// bootInSettings: the boot override is written to the settings resource first.
	bootInSettings trait = "bootInSettings"
	// bootInFuture: the boot override is written to <system>/SD, with all its properties.
	bootInFuture trait = "bootInFuture"
	// modeWithBoot: a boot override is always sent with its mode.
	modeWithBoot trait = "modeWithBoot"
	// noEmptyURI: HttpBootUri is left out rather than set to "".
	noEmptyURI trait = "noEmptyURI"
	// noTargetNone: Enabled and target None are not sent together.
	noTargetNone trait = "noTargetNone"
	// mediaByPatch: media are inserted by PATCH even if there is an action.
	mediaByPatch trait = "mediaByPatch"
	// staleImage: the image of a slot counts only while it is connected.
	staleImage trait = "staleImage"
	// applyOnReset: settings are sent with the time at which they apply.
	applyOnReset trait = "applyOnReset"
	// secureBootSetting: Secure Boot is a BIOS attribute.
	secureBootSetting trait = "secureBootSetting"
	// bareReset: the manager's Reset takes no ResetType.
	bareReset trait = "bareReset"
	// cdIsPhysical: the boot target Cd is the server's own drive; attributes of the manager
	// select the virtual one.
	cdIsPhysical trait = "cdIsPhysical"
	// waitAfterOff: a 409 passes within 10 s.
	waitAfterOff trait = "waitAfterOff"
	// waitForJob: a refusal because of a job passes with the job.
	waitForJob trait = "waitForJob"
	// waitInPOST: a refusal that names POST passes within 5 s.
	waitInPOST trait = "waitInPOST"
	// pushAsForm: HttpPushUri takes a form; SimpleUpdate then installs the stored image.
	pushAsForm trait = "pushAsForm"
	// pushIsOwn: only the vendor's own tools can use HttpPushUri.
	pushIsOwn trait = "pushIsOwn"
)

// quirk is one deviation of one vendor. A nil pattern matches everything.
type quirk struct {
	trait trait
	// vendor matches ServiceRoot.Vendor or, without one, the system's Manufacturer; model
	// matches the system's Model; firmware matches the manager's "Model FirmwareVersion".
	vendor, model, firmware *regexp.Regexp
	// answer is the BMC's answer that the trait avoids.
	answer string
}

var (
	dell       = regexp.MustCompile(`(?i)^dell\b`)
	hpe        = regexp.MustCompile(`(?i)^(hpe?|hewlett[ -]packard.*)$`)
	supermicro = regexp.MustCompile(`(?i)^super ?micro`)
	lenovo     = regexp.MustCompile(`(?i)^lenovo\b`)
	ami        = regexp.MustCompile(`(?i)^(ami\b|american megatrends|asrock)`)
	idrac10    = regexp.MustCompile(`^17G|(^| )1\.[0-9]+\.[0-9]+\.`) // iDRAC9 counts from 3
	x11        = regexp.MustCompile(`(?i)\bX11|^SYS-[0-9]{3}9`)
)

// quirks is the table. docs/field-notes.md is the source where no other is named. TestQuirkTable
// checks which BMC has which trait; TestTemporaryRefusals, TestQuirks and TestMatrix check their effects.
var quirks = []quirk{
	{cutGzipTag, dell, nil, nil, `412 PreconditionFailed to an If-Match with the ETag "…-gzip" of its own web server`},
	{bootInSettings, dell, nil, idrac10, `400 PropertyNotWritable: Boot is read-only on the system`},
	{applyOnReset, dell, nil, nil, `200, and the settings stay pending: no job applies them`},
	{secureBootSetting, dell, nil, nil, `400 to SecureBootEnable: Secure Boot changes only through a reboot job`},
	// github.com/dell/iDRAC-Redfish-Scripting issue 90, SetNextOneTimeBootVirtualMediaDeviceOemREDFISH;
	// some firmware from 2023 on boots the virtual drive by Cd too (community.general issue 3423)
	{cdIsPhysical, dell, nil, nil, `204 to the target Cd, and the server boots its physical drive or its disk`},
	{waitAfterOff, dell, nil, nil, `409 to On right after ForceOff`},
	{waitForJob, dell, nil, nil, `400 SYS011 "Pending configuration values are already committed" while a job waits for its boot`},
	// github.com/dell/iDRAC-Redfish-Scripting, DeviceFirmwareSimpleUpdateREDFISH
	{pushAsForm, dell, nil, nil, `415 to a plain image at HttpPushUri: it wants a form and the ETag of the inventory; 201, and nothing is installed before a SimpleUpdate of its Location`},
	// github.com/HewlettPackard/python-redfish-utility, uploadcomp
	{pushIsOwn, hpe, nil, nil, `400 at HttpPushUri, /cgi-bin/uploadFile: it wants the session key as a cookie and in HPE's own form`},
	{noEmptyURI, hpe, nil, nil, `400 to an HttpBootUri that is present and empty`},
	{noTargetNone, hpe, nil, nil, `400 to BootSourceOverrideEnabled with target None`},
	{modeWithBoot, supermicro, nil, nil, `204, and BootSourceOverrideMode falls back to Legacy when the device changes without it`},
	// github.com/ansible-collections/community.general issue 6969
	{staleImage, supermicro, nil, nil, `204 to EjectMedia, and Image and ImageName stay; ConnectedVia is correct`},
	{bareReset, supermicro, x11, nil, `400 ActionParameterUnknown to a ResetType in Manager.Reset`},
	{mediaByPatch, lenovo, nil, nil, `404 to VirtualMedia.InsertMedia: media are inserted by PATCH`},
	{waitInPOST, lenovo, nil, nil, `400 to a boot override while the server is "in POST"`},
	{bootInFuture, ami, nil, nil, `400 OperationSupportedInFutureStateURI to a boot override on the system`},
}

// product is the key of the table.
type product struct{ vendor, model, firmware string }

// traits returns the deviations of a BMC.
func (m product) traits() []trait {
	fits := func(r *regexp.Regexp, text string) bool { return r == nil || r.MatchString(text) }
	var out []trait
	for _, q := range quirks {
		if fits(q.vendor, m.vendor) && fits(q.model, m.model) && fits(q.firmware, m.firmware) {
			out = append(out, q.trait)
		}
	}
	return out
}

// needsFirmware reports whether a quirk of this vendor depends on the firmware.
func (m product) needsFirmware() bool {
	return slices.ContainsFunc(quirks, func(q quirk) bool { return q.firmware != nil && q.vendor.MatchString(m.vendor) })
}

// has reports whether the BMC has a trait, as far as the vendor is known.
func (c *conn) has(t trait) bool { return slices.Contains(c.traits, t) }

// learn determines the traits once per session. It costs a request only if a quirk depends on
// the firmware.
func (c *conn) learn(system *systemResource) error {
	if c.learned {
		return nil
	}
	m := product{vendor: cmp.Or(strings.TrimSpace(c.root.Vendor), strings.TrimSpace(system.Manufacturer)), model: strings.TrimSpace(system.Model)}
	if m.needsFirmware() {
		manager, _, err := c.manager(system)
		if err := ignoreUnsupported(err); err != nil {
			return err
		}
		m.firmware = strings.TrimSpace(manager.Model + " " + manager.FirmwareVersion)
	}
	c.traits, c.learned = m.traits(), true
	return nil
}

// temporaryIDs are the messages, of any registry and version, of temporary refusals, with the
// time to wait. iLO 5 and 6 send only the ID (HPE's registries iLO and HpeCommon;
// github.com/ironcore-dev/metal-operator issue 997). The others are of DMTF's Base registry
// (DSP2065).
var temporaryIDs = map[string]time.Duration{
	postID:                          10 * time.Second,
	stateID:                         10 * time.Second,
	"ResourceNotReadyRetry":         10 * time.Second,
	"ServiceInUnknownState":         30 * time.Second,
	"ServiceShuttingDown":           30 * time.Second,
	"ServiceTemporarilyUnavailable": 30 * time.Second,
}

const (
	// postID refuses a change while the server is in its power-on self-test.
	postID = "UnableToModifyDuringSystemPOST"
	// stateID refuses an operation in the current state of the server.
	stateID = "InvalidOperationForSystemState"
)

// temporary reports whether a refusal is temporary, and how long it lasts.
func (c *conn) temporary(e *callError, message string) (wait time.Duration, ok bool) {
	if e.status < 400 || e.status > 499 || e.status == http.StatusUnauthorized {
		return 0, false
	}
	switch {
	case c.has(waitInPOST) && saysInPOST(message):
		return 5 * time.Second, true
	case e.status == http.StatusConflict && c.has(waitAfterOff):
		return 10 * time.Second, true
	case e.status == http.StatusBadRequest && c.has(waitForJob) && strings.Contains(message, "already committed"):
		return time.Minute, true
	}
	for _, m := range e.messages {
		if wait, ok := temporaryIDs[m.name()]; ok {
			return wait, true
		}
	}
	return 0, false
}

// saysInPOST reports whether a message says that the server is in its power-on self-test, and
// not that a POST request is wrong.
func saysInPOST(message string) bool {
	lower := strings.ToLower(message)
	return strings.Contains(message, "in POST") && !strings.Contains(lower, "request") && !strings.Contains(lower, "body")
}

// tagFor returns the If-Match value for a received ETag.
func (c *conn) tagFor(tag string) string {
	if !c.has(cutGzipTag) {
		return tag
	}
	if strings.HasSuffix(tag, `-gzip"`) {
		return strings.TrimSuffix(tag, `-gzip"`) + `"`
	}
	return strings.TrimSuffix(tag, "-gzip")
}

// systemForWrite reads the system, its ETag and the traits of its BMC.
func (c *conn) systemForWrite() (*systemResource, error) {
	system, err := c.readSystem()
	if err != nil {
		return nil, err
	}
	system.etag = cmp.Or(c.transport.last.etag, system.Tag)
	return system, c.learn(system)
}

// manager reads the system's manager and returns its path; both are zero if there is none.
func (c *conn) manager(system *systemResource) (managerResource, string, error) {
	path, err := c.managerPath(system)
	if err != nil || path == "" {
		return managerResource{}, "", err
	}
	var m managerResource
	err = c.get(path, &m)
	return m, path, err
}

// notSupported returns the error for a feature that the BMC does not have.
func notSupported(what string) error { return fmt.Errorf("%w: %s", bmc.ErrNotSupported, what) }

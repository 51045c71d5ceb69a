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

// trait is a deviation that the code asks for by name; only the table says who
// has it.
type trait string

const (
	// cutGzipTag: ETags come back without the "-gzip" that was added to them.
	cutGzipTag trait = "cutGzipTag"
	// bootInSettings: the boot override is written to the settings resource first.
	bootInSettings trait = "bootInSettings"
	// bootInFuture: the boot override is written to <system>/SD, whole.
	bootInFuture trait = "bootInFuture"
	// modeWithBoot: a boot override never goes without its mode.
	modeWithBoot trait = "modeWithBoot"
	// noEmptyURI: HttpBootUri is left out rather than emptied.
	noEmptyURI trait = "noEmptyURI"
	// noTargetNone: Enabled and target None never go together.
	noTargetNone trait = "noTargetNone"
	// mediaByPatch: media are inserted by PATCH even if an action is shown.
	mediaByPatch trait = "mediaByPatch"
	// staleImage: what a slot tells of its image counts only while connected.
	staleImage trait = "staleImage"
	// applyOnReset: settings name the time at which they apply.
	applyOnReset trait = "applyOnReset"
	// secureBootSetting: Secure Boot is changed by a BIOS attribute.
	secureBootSetting trait = "secureBootSetting"
	// bareReset: the manager's reset takes no ResetType.
	bareReset trait = "bareReset"
	// cdIsPhysical: the target Cd is the server's own drive; the virtual one is named by
	// the manager's attributes.
	cdIsPhysical trait = "cdIsPhysical"
	// waitAfterOff: a conflict passes in 10 s.
	waitAfterOff trait = "waitAfterOff"
	// waitForJob: a refusal because of a job passes with the job.
	waitForJob trait = "waitForJob"
	// waitInPOST: a refusal that names POST passes in 5 s.
	waitInPOST trait = "waitInPOST"
	// pushAsForm: what is pushed to HttpPushUri is a form, and is installed from where it
	// is kept.
	pushAsForm trait = "pushAsForm"
	// pushIsOwn: HttpPushUri is for the maker's own tools.
	pushIsOwn trait = "pushIsOwn"
)

// quirk is one deviation of one maker. Empty patterns match all.
type quirk struct {
	trait trait
	// vendor is matched with ServiceRoot.Vendor, or else the system's
	// Manufacturer; model with the system's Model; firmware with
	// the manager's "Model FirmwareVersion".
	vendor, model, firmware *regexp.Regexp
	// answer is what the BMC answers without the trait.
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

// quirks is the table. The facts are the field notes' (docs/field-notes.md) where no
// other source is named. Who has them, TestQuirkTable pins; what they avoid,
// TestPassing, TestQuirks and TestMatrix show.
var quirks = []quirk{
	{cutGzipTag, dell, nil, nil, `412 PreconditionFailed to an If-Match with the tag that its own web server made "…-gzip"`},
	{bootInSettings, dell, nil, idrac10, `400 PropertyNotWritable: Boot is read-only on the system`},
	{applyOnReset, dell, nil, nil, `200, and the settings stay pending for ever: no job takes them over`},
	{secureBootSetting, dell, nil, nil, `400 to SecureBootEnable: Secure Boot changes only through a reboot job`},
	// github.com/dell/iDRAC-Redfish-Scripting issue 90, SetNextOneTimeBootVirtualMediaDeviceOemREDFISH;
	// some firmware from 2023 on boots the virtual drive by Cd too (community.general issue 3423)
	{cdIsPhysical, dell, nil, nil, `204 to the target Cd, and the server boots its physical drive, or goes on to its disk`},
	{waitAfterOff, dell, nil, nil, `409 to On right after ForceOff`},
	{waitForJob, dell, nil, nil, `400 SYS011 "Pending configuration values are already committed" while a job waits for its boot`},
	// github.com/dell/iDRAC-Redfish-Scripting, DeviceFirmwareSimpleUpdateREDFISH
	{pushAsForm, dell, nil, nil, `415 to an image alone at HttpPushUri: it wants a form, and the ETag of the inventory; 201, and nothing is installed before a SimpleUpdate of its Location`},
	// github.com/HewlettPackard/python-redfish-utility, uploadcomp
	{pushIsOwn, hpe, nil, nil, `400 at HttpPushUri, /cgi-bin/uploadFile: it wants the session's key as a cookie, and in a form of HPE's own`},
	{noEmptyURI, hpe, nil, nil, `400 to an HttpBootUri that is present and empty`},
	{noTargetNone, hpe, nil, nil, `400 to BootSourceOverrideEnabled with target None`},
	{modeWithBoot, supermicro, nil, nil, `204, and BootSourceOverrideMode falls back to Legacy when the device changes without it`},
	// github.com/ansible-collections/community.general issue 6969
	{staleImage, supermicro, nil, nil, `204 to EjectMedia, and Image and ImageName stay; ConnectedVia tells the truth`},
	{bareReset, supermicro, x11, nil, `400 ActionParameterUnknown to a ResetType in Manager.Reset`},
	{mediaByPatch, lenovo, nil, nil, `404 to VirtualMedia.InsertMedia: media are inserted by PATCH`},
	{waitInPOST, lenovo, nil, nil, `400 to a boot override while the server is "in POST"`},
	{bootInFuture, ami, nil, nil, `400 OperationSupportedInFutureStateURI to a boot override on the system`},
}

// maker is what the table is keyed by.
type maker struct{ vendor, model, firmware string }

// traits lists what a maker's BMC deviates in.
func (m maker) traits() []trait {
	fits := func(r *regexp.Regexp, text string) bool { return r == nil || r.MatchString(text) }
	var out []trait
	for _, q := range quirks {
		if fits(q.vendor, m.vendor) && fits(q.model, m.model) && fits(q.firmware, m.firmware) {
			out = append(out, q.trait)
		}
	}
	return out
}

// needsFirmware says whether the firmware decides anything for this vendor.
func (m maker) needsFirmware() bool {
	return slices.ContainsFunc(quirks, func(q quirk) bool { return q.firmware != nil && q.vendor.MatchString(m.vendor) })
}

// has asks the table, with what is known of the BMC so far.
func (c *conn) has(t trait) bool { return slices.Contains(c.traits, t) }

// learn finds out, once per session, who made the BMC. It costs a request only
// where the table asks for the firmware.
func (c *conn) learn(system *systemResource) error {
	if c.learned {
		return nil
	}
	m := maker{vendor: strings.TrimSpace(c.root.Vendor), model: strings.TrimSpace(system.Model)}
	if m.vendor == "" {
		m.vendor = strings.TrimSpace(system.Manufacturer)
	}
	if m.needsFirmware() {
		manager, _, err := c.manager(system)
		if err := optional(err); err != nil {
			return err
		}
		m.firmware = strings.TrimSpace(manager.Model + " " + manager.FirmwareVersion)
	}
	c.traits, c.learned = m.traits(), true
	return nil
}

// passingIDs are the messages, of any registry and version, by which a BMC refuses for a
// while only, and how long that is. Some BMCs send the ID and no text: iLO 5 and 6 (HPE's
// registries iLO and HpeCommon; github.com/ironcore-dev/metal-operator issue 997). The other
// names are of DMTF's Base registry (DSP2065).
var passingIDs = map[string]time.Duration{
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
	// stateID refuses what does not fit the state that the server is in now.
	stateID = "InvalidOperationForSystemState"
)

// passing reports how long a refusal lasts that the BMC means for a while only.
func (c *conn) passing(e *callError, message string) (wait time.Duration, ok bool) {
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
		if wait, ok := passingIDs[m.name()]; ok {
			return wait, true
		}
	}
	return 0, false
}

// saysInPOST reports that the server is in its power-on self-test, and not that
// something is wrong in a POST request.
func saysInPOST(message string) bool {
	lower := strings.ToLower(message)
	return strings.Contains(message, "in POST") && !strings.Contains(lower, "request") && !strings.Contains(lower, "body")
}

// tagFor is the tag to send where one was received.
func (c *conn) tagFor(tag string) string {
	if !c.has(cutGzipTag) {
		return tag
	}
	if strings.HasSuffix(tag, `-gzip"`) {
		return strings.TrimSuffix(tag, `-gzip"`) + `"`
	}
	return strings.TrimSuffix(tag, "-gzip")
}

// systemForWrite reads the system and learns who made it.
func (c *conn) systemForWrite() (*systemResource, error) {
	system, err := c.readSystem()
	if err != nil {
		return nil, err
	}
	system.etag = cmp.Or(c.transport.last.etag, system.Tag)
	return system, c.learn(system)
}

// manager reads the system's manager; a zero resource and no path where there is
// none.
func (c *conn) manager(system *systemResource) (managerResource, string, error) {
	path, err := c.managerPath(system)
	if err != nil || path == "" {
		return managerResource{}, "", err
	}
	var m managerResource
	err = c.get(path, &m)
	return m, path, err
}

// lacking is the error for what a BMC does not have.
func lacking(what string) error { return fmt.Errorf("%w: %s", bmc.ErrNotSupported, what) }

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ingot-metal/ingot/bmc"
)

// BootOverride implements bmc.BootDevice. A target that has no name of ours is
// passed on in Redfish's word.
func (c *conn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	c.begin(ctx)
	override, err := c.bootOverride()
	if err != nil {
		return bmc.BootOverride{}, fmt.Errorf("read boot override: %w", err)
	}
	return override, nil
}

func (c *conn) bootOverride() (bmc.BootOverride, error) {
	system, err := c.systemForWrite() // who made it says where else to look
	if err != nil {
		return bmc.BootOverride{}, err
	}
	if err := c.readBoot(system); err != nil {
		return bmc.BootOverride{}, err
	}
	if !system.Boot.shows() {
		return bmc.BootOverride{}, lacking("the system shows none")
	}
	override := system.Boot.override()
	if !c.has(cdIsPhysical) {
		return override, nil
	}
	return c.virtualCD(system, override)
}

// shows reports whether there is an override, set or not.
func (b *bootResource) shows() bool { return b != nil && (b.Enabled != "" || b.Target != "") }

// readBoot completes a system that shows no override by what stands where it is written
// (iDRAC10, whose override is in its settings resource alone).
func (c *conn) readBoot(system *systemResource) error {
	path := system.Settings.Object.ID
	if system.Boot.shows() || path == "" || path == c.system {
		return nil
	}
	var future settingsResource
	if err := c.get(path, &future); err != nil {
		return optional(err)
	}
	if future.Boot.shows() {
		system.Boot = future.Boot
	}
	return nil
}

func (b *bootResource) override() bmc.BootOverride {
	o := bmc.BootOverride{Target: bmc.BootNone}
	switch b.Mode {
	case redfish.UEFIBootSourceOverrideMode:
		o.Mode = bmc.ModeUEFI
	case redfish.LegacyBootSourceOverrideMode:
		o.Mode = bmc.ModeBIOS
	}
	if b.Enabled == redfish.DisabledBootSourceOverrideEnabled || b.Enabled == "" {
		return o
	}
	switch b.Target {
	case redfish.PxeBootSourceOverrideTarget:
		o.Target = bmc.BootPXE
	case redfish.HddBootSourceOverrideTarget:
		o.Target = bmc.BootDisk
	case redfish.CdBootSourceOverrideTarget, targetUsbCd, targetCdDvd:
		o.Target = bmc.BootCD
	case redfish.BiosSetupBootSourceOverrideTarget:
		o.Target = bmc.BootSetup
	case redfish.UefiHTTPBootSourceOverrideTarget:
		o.Target, o.HTTPBootURI = bmc.BootHTTP, b.HTTPBootURI
	case redfish.NoneBootSourceOverrideTarget, "":
		return o
	default:
		o.Target = bmc.BootTarget(b.Target)
	}
	o.Persistent = b.Enabled == redfish.ContinuousBootSourceOverrideEnabled
	return o
}

// Words that Supermicro has for a CD drive beside Redfish's own; UsbCd is the
// virtual one.
const (
	targetUsbCd redfish.BootSourceOverrideTarget = "UsbCd"
	targetCdDvd redfish.BootSourceOverrideTarget = "CD/DVD"
)

// bootBody is what is sent.
type bootBody struct {
	Enabled redfish.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled,omitempty"`
	Target  redfish.BootSourceOverrideTarget  `json:"BootSourceOverrideTarget,omitempty"`
	Mode    redfish.BootSourceOverrideMode    `json:"BootSourceOverrideMode,omitempty"`
	URI     *string                           `json:"HttpBootUri,omitempty"`
}

// bootRung is one place to send bodies to, best first.
type bootRung struct {
	path   string
	bodies []bootBody
}

// SetBootOverride implements bmc.BootDevice. It climbs a ladder: from one rung to
// the next only when the BMC refused the former, never when the outcome is not
// known (I17).
func (c *conn) SetBootOverride(ctx context.Context, override bmc.BootOverride) error {
	c.begin(ctx)
	if err := c.setBootOverride(override); err != nil {
		return fmt.Errorf("set boot override %s: %w", override.Target, err)
	}
	return nil
}

func (c *conn) setBootOverride(override bmc.BootOverride) error {
	system, err := c.systemForWrite()
	if err != nil {
		return err
	}
	if err := c.readBoot(system); err != nil {
		return err
	}
	if system.Boot == nil {
		return lacking("the system shows no boot override")
	}
	if override.Target == bmc.BootCD && c.has(cdIsPhysical) {
		if done, err := c.setVirtualCD(system, override); done || err != nil {
			return err
		}
	}
	bodies, err := c.bootBodies(override, system.Boot)
	if err != nil {
		return err
	}
	var refused error
	for _, rung := range c.bootLadder(system, bodies) {
		for _, body := range rung.bodies {
			tag := ""
			if rung.path == c.system {
				tag = system.etag
			}
			err := c.patchBoot(rung.path, tag, body)
			if err == nil {
				return c.verifyBoot(rung.path, override)
			}
			if !isRefusedRung(err) {
				return err
			}
			if refused == nil || !isMissing(err) {
				refused = err
			}
			if e, _ := refusal(err); isMissing(err) || e.has("OperationSupportedInFutureStateURI") {
				break // another body will not help at this path
			}
		}
	}
	return fmt.Errorf("%w: last answer: %w", bmc.ErrNotSupported, refused)
}

// patchBoot sends one body. On the system no tag is asked for where the read of
// it showed none.
func (c *conn) patchBoot(path, tag string, body bootBody) error {
	if path == c.system {
		return c.patchTagged(path, tag, map[string]any{"Boot": body})
	}
	return c.patch(path, tag, map[string]any{"Boot": body})
}

// bootLadder lists where to send what: the system; the settings resource that it
// names; AMI's future state. The table says who wants it otherwise.
func (c *conn) bootLadder(system *systemResource, bodies []bootBody) []bootRung {
	rungs := []bootRung{{c.system, bodies}}
	if settings := system.Settings.Object.ID; settings != "" && settings != c.system {
		rungs = append(rungs, bootRung{settings, bodies})
		if c.has(bootInSettings) {
			slices.Reverse(rungs)
		}
	}
	future := bootRung{c.system + "/SD", bodies}
	if c.has(bootInFuture) {
		return append([]bootRung{future}, rungs...)
	}
	return append(rungs, future)
}

// bootBodies lists what to send, best first: all of it; without the mode, which
// some BMCs do not have or cannot switch. What the mode then is, verifyBoot sees.
func (c *conn) bootBodies(override bmc.BootOverride, now *bootResource) ([]bootBody, error) {
	mode := now.Mode
	switch override.Mode {
	case bmc.ModeUEFI:
		mode = redfish.UEFIBootSourceOverrideMode
	case bmc.ModeBIOS:
		mode = redfish.LegacyBootSourceOverrideMode
	}
	if override.Target == bmc.BootNone {
		return c.bootOff(mode), nil
	}
	body := bootBody{Enabled: redfish.OnceBootSourceOverrideEnabled, Mode: mode}
	if override.Persistent {
		body.Enabled = redfish.ContinuousBootSourceOverrideEnabled
	}
	wanted := bootTargets(override.Target)
	if len(wanted) == 0 {
		return nil, lacking("no such target")
	}
	i := slices.IndexFunc(wanted, func(t redfish.BootSourceOverrideTarget) bool {
		return slices.Contains(now.AllowedTargets, string(t))
	})
	if len(now.AllowedTargets) == 0 {
		i = slices.IndexFunc(wanted, func(t redfish.BootSourceOverrideTarget) bool { return t != targetUsbCd })
	}
	if i < 0 {
		return nil, lacking(fmt.Sprintf("wants %s, the system allows %s", wanted[0], c.short(strings.Join(now.AllowedTargets, ", "), 200)))
	}
	body.Target = wanted[i]
	if override.Target == bmc.BootHTTP && (override.HTTPBootURI != "" || now.HTTPBootURI != "" && !c.has(noEmptyURI)) {
		body.URI = &override.HTTPBootURI
	}
	bodies := []bootBody{body}
	if body.Mode != "" && (now.Mode == "" || !c.has(modeWithBoot)) {
		body.Mode = ""
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// bootOff ends an override: by Enabled alone, since target None beside it is
// refused by some, and wanted by others.
func (c *conn) bootOff(mode redfish.BootSourceOverrideMode) []bootBody {
	disabled := redfish.DisabledBootSourceOverrideEnabled
	bodies := []bootBody{{Enabled: disabled, Mode: mode}}
	if mode != "" && !c.has(modeWithBoot) {
		bodies = append(bodies, bootBody{Enabled: disabled})
	}
	if whole := (bootBody{Enabled: disabled, Target: redfish.NoneBootSourceOverrideTarget, Mode: mode}); c.has(bootInFuture) {
		bodies = []bootBody{whole}
	} else if !c.has(noTargetNone) {
		bodies = append(bodies, whole)
	}
	return bodies
}

// bootTargets are Redfish's words for a target, best first.
func bootTargets(target bmc.BootTarget) []redfish.BootSourceOverrideTarget {
	switch target {
	case bmc.BootPXE:
		return []redfish.BootSourceOverrideTarget{redfish.PxeBootSourceOverrideTarget}
	case bmc.BootDisk:
		return []redfish.BootSourceOverrideTarget{redfish.HddBootSourceOverrideTarget}
	case bmc.BootHTTP:
		return []redfish.BootSourceOverrideTarget{redfish.UefiHTTPBootSourceOverrideTarget}
	case bmc.BootCD:
		return []redfish.BootSourceOverrideTarget{targetUsbCd, redfish.CdBootSourceOverrideTarget, targetCdDvd}
	case bmc.BootSetup:
		return []redfish.BootSourceOverrideTarget{redfish.BiosSetupBootSourceOverrideTarget}
	}
	return nil
}

// isRefusedRung reports an answer after which the next rung may be tried: the BMC
// understood and declined. Not so with what asks for patience or other
// credentials, and with what may have had an effect.
func isRefusedRung(err error) bool {
	e, ok := refusal(err)
	if !ok || e.status >= 500 && e.status != http.StatusNotImplemented {
		return false
	}
	return !errors.Is(err, bmc.ErrUnauthorized) && !errors.Is(err, bmc.ErrBusy)
}

// verifyBoot reads back where it was written: a settings resource shows what the
// next boot will find, the system what is now.
func (c *conn) verifyBoot(path string, want bmc.BootOverride) error {
	var shown settingsResource
	if err := c.get(path, &shown); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if shown.Boot == nil {
		return fmt.Errorf("read back: %w: shows no boot override", bmc.ErrNotApplied)
	}
	got := shown.Boot.override()
	same := got.Target == want.Target && got.HTTPBootURI == want.HTTPBootURI
	// Where no mode is shown, there is none to be wrong.
	if want.Mode != "" && got.Mode != "" && got.Mode != want.Mode {
		same = false
	}
	persistent := want.Persistent && want.Target != bmc.BootNone
	switch {
	case same && got.Persistent == persistent:
		return nil
	case same && got.Persistent: // sushy-tools keeps each one
		return bmc.ErrOverrideStays
	}
	return fmt.Errorf("%w: wants %+v, the BMC shows %+v", bmc.ErrNotApplied, want, got)
}

// The attributes of an iDRAC that name the next boot, and their values for the virtual
// drive. BootOnce says for how long: Disabled is for all boots.
const (
	attributeDevice = "ServerBoot.1.FirstBootDevice"
	attributeOnce   = "ServerBoot.1.BootOnce"

	deviceVirtualCD = "VCD-DVD"
	onceEnabled     = "Enabled"
	onceDisabled    = "Disabled"
)

// attributesResource is DellAttributes, the settings of the iDRAC itself.
type attributesResource struct {
	// Attributes are strings, numbers and null.
	Attributes map[string]any `json:"Attributes"`
}

func (a attributesResource) override() (bmc.BootOverride, bool) {
	device, _ := a.Attributes[attributeDevice].(string)
	once, _ := a.Attributes[attributeOnce].(string)
	return bmc.BootOverride{Target: bmc.BootCD, Persistent: once != onceEnabled}, strings.EqualFold(device, deviceVirtualCD)
}

// attributes reads the settings of the iDRAC; the path is empty where it shows none. They
// are where its manager says, and before there was a link below the manager.
func (c *conn) attributes(system *systemResource) (attributesResource, string, error) {
	manager, path, err := c.manager(system)
	if err != nil || path == "" {
		return attributesResource{}, "", optional(err)
	}
	place := path + "/Attributes"
	for _, l := range manager.Links.OEM.Dell.Attributes {
		// The other two are of the system and of the chassis' lifecycle controller.
		if strings.HasSuffix(l.ID, "/"+path[strings.LastIndex(path, "/")+1:]) {
			place = l.ID
		}
	}
	var a attributesResource
	if err := c.get(place, &a); err != nil {
		return attributesResource{}, "", optional(err)
	}
	if _, found := a.Attributes[attributeDevice]; !found {
		return attributesResource{}, "", nil
	}
	return a, place, nil
}

// setVirtualCD has an iDRAC boot its virtual drive; done says that it is set. Where it is
// not, and there is no error, the BMC has no such attributes, and its target Cd is all
// there is. One that has them and refuses is not asked for Cd: that would be a boot from
// the disk, of whoever was there before.
func (c *conn) setVirtualCD(system *systemResource, override bmc.BootOverride) (done bool, err error) {
	_, path, err := c.attributes(system)
	if err != nil || path == "" {
		return false, err
	}
	if now := system.Boot.override().Mode; override.Mode != "" && now != "" && now != override.Mode {
		return false, fmt.Errorf("%w: wants mode %s, the BMC shows %s", bmc.ErrNotApplied, override.Mode, now)
	}
	once := onceEnabled
	if override.Persistent {
		once = onceDisabled
	}
	err = c.patch(path, "", map[string]any{"Attributes": map[string]string{attributeOnce: once, attributeDevice: deviceVirtualCD}})
	if err != nil {
		return false, err
	}
	var shown attributesResource
	if err := c.get(path, &shown); err != nil {
		return false, fmt.Errorf("read back: %w", err)
	}
	if got, is := shown.override(); !is || got.Persistent != override.Persistent {
		return false, fmt.Errorf("%w: %s is %v, %s is %v", bmc.ErrNotApplied, attributeDevice,
			shown.Attributes[attributeDevice], attributeOnce, shown.Attributes[attributeOnce])
	}
	return true, nil
}

// virtualCD completes an override that was read with what an iDRAC's attributes say: the
// system does not tell of the virtual drive.
func (c *conn) virtualCD(system *systemResource, read bmc.BootOverride) (bmc.BootOverride, error) {
	switch system.Boot.Target {
	case redfish.NoneBootSourceOverrideTarget, redfish.CdBootSourceOverrideTarget, "":
	default:
		return read, nil
	}
	a, path, err := c.attributes(system)
	if err != nil || path == "" {
		return read, err
	}
	got, is := a.override()
	if !is {
		return read, nil
	}
	got.Mode = read.Mode
	return got, nil
}

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

// BootOverride implements bmc.BootDevice. A target without a constant in package bmc keeps its
// Redfish name.
func (c *conn) BootOverride(ctx context.Context) (o bmc.BootOverride, err error) {
	c.begin(ctx)
	defer wrap(&err, "read boot override")
	system, err := c.systemForWrite() // the traits decide where else to look
	if err != nil {
		return bmc.BootOverride{}, err
	}
	if err := c.readBoot(system); err != nil {
		return bmc.BootOverride{}, err
	}
	if !system.Boot.shows() {
		return bmc.BootOverride{}, notSupported("the system shows no boot override")
	}
	override := system.Boot.override()
	if !c.has(cdIsPhysical) {
		return override, nil
	}
	return c.addVirtualCD(system, override)
}

// shows reports whether the resource has the boot override, even a disabled one.
func (b *bootResource) shows() bool { return b != nil && (b.Enabled != "" || b.Target != "") }

// readBoot adds the boot override from the settings resource if the system shows none (iDRAC10).
func (c *conn) readBoot(system *systemResource) error {
	path := system.Settings.Object.ID
	if system.Boot.shows() || path == "" || path == c.system {
		return nil
	}
	var future settingsResource
	if err := c.get(path, &future); err != nil {
		return ignoreUnsupported(err)
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
	if b.Enabled == redfish.DisabledBootSourceOverrideEnabled || b.Enabled == "" ||
		b.Target == redfish.NoneBootSourceOverrideTarget || b.Target == "" {
		return o
	}
	o.Target = bmc.BootTarget(b.Target)
	for target, names := range bootTargets {
		if slices.Contains(names, b.Target) {
			o.Target = target
		}
	}
	if o.Target == bmc.BootHTTP {
		o.HTTPBootURI = b.HTTPBootURI
	}
	o.Persistent = b.Enabled == redfish.ContinuousBootSourceOverrideEnabled
	return o
}

// bootTargets has the Redfish names of each target, best first. UsbCd and CD/DVD are Supermicro's
// names of a CD drive; UsbCd is the virtual drive.
var bootTargets = map[bmc.BootTarget][]redfish.BootSourceOverrideTarget{
	bmc.BootPXE:   {redfish.PxeBootSourceOverrideTarget},
	bmc.BootDisk:  {redfish.HddBootSourceOverrideTarget},
	bmc.BootHTTP:  {redfish.UefiHTTPBootSourceOverrideTarget},
	bmc.BootCD:    {targetUsbCd, redfish.CdBootSourceOverrideTarget, "CD/DVD"},
	bmc.BootSetup: {redfish.BiosSetupBootSourceOverrideTarget},
}

const targetUsbCd redfish.BootSourceOverrideTarget = "UsbCd"

// bootBody is the Boot object of a PATCH.
type bootBody struct {
	Enabled redfish.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled,omitempty"`
	Target  redfish.BootSourceOverrideTarget  `json:"BootSourceOverrideTarget,omitempty"`
	Mode    redfish.BootSourceOverrideMode    `json:"BootSourceOverrideMode,omitempty"`
	URI     *string                           `json:"HttpBootUri,omitempty"`
}

// SetBootOverride implements bmc.BootDevice. It tries the paths and bodies in order. It tries the
// next one only if the BMC refused the last, never if the outcome is unknown (I17).
func (c *conn) SetBootOverride(ctx context.Context, override bmc.BootOverride) (err error) {
	c.begin(ctx)
	defer wrap(&err, "set boot override "+string(override.Target))
	system, err := c.systemForWrite()
	if err != nil {
		return err
	}
	if err := c.readBoot(system); err != nil {
		return err
	}
	if system.Boot == nil {
		return notSupported("the system shows no boot override")
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
	for _, path := range c.bootPaths(system) {
		for _, body := range bodies {
			patch, tag := c.patch, ""
			if path == c.system { // its ETag is known already
				patch, tag = c.patchTagged, system.etag
			}
			err := patch(path, tag, map[string]any{"Boot": body})
			if err == nil {
				return c.verifyBoot(path, override)
			}
			if !isDeclined(err) {
				return err
			}
			if refused == nil || !isMissing(err) {
				refused = err
			}
			if e, _ := refusal(err); isMissing(err) || e.has("OperationSupportedInFutureStateURI") {
				break // no body will help at this path
			}
		}
	}
	return fmt.Errorf("%w: last answer: %w", bmc.ErrNotSupported, refused)
}

// bootPaths returns the paths that may take a boot override, best first: the system, its settings
// resource, and AMI's future state. The traits of the BMC change the order.
func (c *conn) bootPaths(system *systemResource) []string {
	paths := []string{c.system}
	if settings := system.Settings.Object.ID; settings != "" && settings != c.system {
		paths = append(paths, settings)
		if c.has(bootInSettings) {
			slices.Reverse(paths)
		}
	}
	future := c.system + "/SD"
	if c.has(bootInFuture) {
		return append([]string{future}, paths...)
	}
	return append(paths, future)
}

// bootBodies returns the bodies to send, best first: complete, then without the mode, which some
// BMCs do not have or cannot change. verifyBoot checks the resulting mode.
func (c *conn) bootBodies(override bmc.BootOverride, now *bootResource) ([]bootBody, error) {
	mode := now.Mode
	switch override.Mode {
	case bmc.ModeUEFI:
		mode = redfish.UEFIBootSourceOverrideMode
	case bmc.ModeBIOS:
		mode = redfish.LegacyBootSourceOverrideMode
	}
	if override.Target == bmc.BootNone {
		return c.bootOffBodies(mode), nil
	}
	body := bootBody{Enabled: redfish.OnceBootSourceOverrideEnabled, Mode: mode}
	if override.Persistent {
		body.Enabled = redfish.ContinuousBootSourceOverrideEnabled
	}
	wanted := bootTargets[override.Target]
	if len(wanted) == 0 {
		return nil, notSupported("no such boot target")
	}
	i := slices.IndexFunc(wanted, func(t redfish.BootSourceOverrideTarget) bool {
		return slices.Contains(now.AllowedTargets, string(t))
	})
	if len(now.AllowedTargets) == 0 {
		i = slices.IndexFunc(wanted, func(t redfish.BootSourceOverrideTarget) bool { return t != targetUsbCd })
	}
	if i < 0 {
		return nil, notSupported(fmt.Sprintf("%s is not among the system's boot targets: %s", wanted[0], c.short(strings.Join(now.AllowedTargets, ", "), 200)))
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

// bootOffBodies returns the bodies that end an override, best first: Enabled alone, then with the
// target None, which some BMCs refuse and others require.
func (c *conn) bootOffBodies(mode redfish.BootSourceOverrideMode) []bootBody {
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

// isDeclined reports whether the BMC understood a request and declined it, so that another
// request may be tried. It is false for ErrBusy, ErrUnauthorized, and whatever may have had an
// effect.
func isDeclined(err error) bool {
	e, ok := refusal(err)
	if !ok || e.status >= 500 && e.status != http.StatusNotImplemented {
		return false
	}
	return !errors.Is(err, bmc.ErrUnauthorized) && !errors.Is(err, bmc.ErrBusy)
}

// verifyBoot reads the override back from the path of the write: a settings resource shows the
// next boot, the system the current state.
func (c *conn) verifyBoot(path string, want bmc.BootOverride) error {
	var shown settingsResource
	if err := c.get(path, &shown); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if shown.Boot == nil {
		return fmt.Errorf("read back: %w: no boot override is shown", bmc.ErrNotApplied)
	}
	got := shown.Boot.override()
	same := got.Target == want.Target && got.HTTPBootURI == want.HTTPBootURI
	// A BMC that shows no mode has none that could be wrong.
	if want.Mode != "" && got.Mode != "" && got.Mode != want.Mode {
		same = false
	}
	persistent := want.Persistent && want.Target != bmc.BootNone
	switch {
	case same && got.Persistent == persistent:
		return nil
	case same && got.Persistent: // sushy-tools makes every override persistent
		return bmc.ErrOverrideStays
	}
	return fmt.Errorf("%w: sent %+v, the BMC shows %+v", bmc.ErrNotApplied, want, got)
}

// The attributes of an iDRAC that select the next boot device, and their values for the virtual
// drive. BootOnce Disabled means every boot.
const (
	attributeDevice = "ServerBoot.1.FirstBootDevice"
	attributeOnce   = "ServerBoot.1.BootOnce"

	deviceVirtualCD = "VCD-DVD"
	onceEnabled     = "Enabled"
	onceDisabled    = "Disabled"
)

// attributesResource is DellAttributes, the settings of the iDRAC.
type attributesResource struct {
	// Attributes are strings, numbers and null.
	Attributes map[string]any `json:"Attributes"`
}

func (a attributesResource) override() (bmc.BootOverride, bool) {
	device, _ := a.Attributes[attributeDevice].(string)
	once, _ := a.Attributes[attributeOnce].(string)
	return bmc.BootOverride{Target: bmc.BootCD, Persistent: once != onceEnabled}, strings.EqualFold(device, deviceVirtualCD)
}

// attributes reads the settings of the iDRAC and returns their path, which is empty if there are
// none. The manager links to them; older firmware has them below the manager without a link.
func (c *conn) attributes(system *systemResource) (attributesResource, string, error) {
	manager, path, err := c.manager(system)
	if err != nil || path == "" {
		return attributesResource{}, "", ignoreUnsupported(err)
	}
	attributes := path + "/Attributes"
	for _, l := range manager.Links.OEM.Dell.Attributes {
		// The other two links are of the system and of the chassis' lifecycle controller.
		if strings.HasSuffix(l.ID, "/"+path[strings.LastIndex(path, "/")+1:]) {
			attributes = l.ID
		}
	}
	var a attributesResource
	if err := c.get(attributes, &a); err != nil {
		return attributesResource{}, "", ignoreUnsupported(err)
	}
	if _, found := a.Attributes[attributeDevice]; !found {
		return attributesResource{}, "", nil
	}
	return a, attributes, nil
}

// setVirtualCD makes an iDRAC boot its virtual drive. Without done or an error, the BMC has no
// such attributes, and only the target Cd is left. If it has them and refuses, Cd must not be
// tried: the server would boot the disk with the operating system of its previous user.
func (c *conn) setVirtualCD(system *systemResource, override bmc.BootOverride) (done bool, err error) {
	_, path, err := c.attributes(system)
	if err != nil || path == "" {
		return false, err
	}
	if now := system.Boot.override().Mode; override.Mode != "" && now != "" && now != override.Mode {
		return false, fmt.Errorf("%w: sent mode %s, the BMC shows %s", bmc.ErrNotApplied, override.Mode, now)
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

// addVirtualCD completes the override with the iDRAC's attributes, since the system does not show
// the virtual drive.
func (c *conn) addVirtualCD(system *systemResource, read bmc.BootOverride) (bmc.BootOverride, error) {
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

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
	c.transport.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.BootOverride{}, fmt.Errorf("read boot override: %w", err)
	}
	if system.Boot == nil || (system.Boot.Enabled == "" && system.Boot.Target == "") {
		return bmc.BootOverride{}, fmt.Errorf("read boot override: %w: the system shows none", bmc.ErrNotSupported)
	}
	return system.Boot.override(), nil
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
	case redfish.NoneBootSourceOverrideTarget, "":
		return o
	default:
		o.Target = bmc.BootTarget(b.Target)
	}
	o.Persistent = b.Enabled == redfish.ContinuousBootSourceOverrideEnabled
	return o
}

// bootBody is what is sent. HttpBootUri is left out, not empty: iLO answers 400 to
// an empty one (field notes).
type bootBody struct {
	Enabled redfish.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled,omitempty"`
	Target  redfish.BootSourceOverrideTarget  `json:"BootSourceOverrideTarget,omitempty"`
	Mode    redfish.BootSourceOverrideMode    `json:"BootSourceOverrideMode,omitempty"`
}

// SetBootOverride implements bmc.BootDevice. It climbs a ladder: from one rung to
// the next only when the BMC refused the former, never when the outcome is not
// known (I17).
func (c *conn) SetBootOverride(ctx context.Context, override bmc.BootOverride) error {
	c.transport.begin(ctx)
	fail := func(err error) error {
		return fmt.Errorf("set boot override %s: %w", override.Target, err)
	}
	system, err := c.readSystem()
	if err != nil {
		return fail(err)
	}
	system.etag = c.transport.last.etag
	if system.Boot == nil {
		return fail(fmt.Errorf("%w: the system shows no boot override", bmc.ErrNotSupported))
	}
	bodies, err := bootBodies(override, system.Boot)
	if err != nil {
		return fail(err)
	}
	var refused error
	for _, path := range c.bootPaths(system) {
		for _, body := range bodies {
			err := c.patchBoot(system, path, body)
			if err == nil {
				if err := c.verifyBoot(path, override); err != nil {
					return fail(err)
				}
				return nil
			}
			if !isRefusedRung(err) {
				return fail(err)
			}
			if refused == nil || !isMissing(err) {
				refused = err
			}
			if e, _ := refusal(err); isMissing(err) || e.has("OperationSupportedInFutureStateURI") {
				break // another body will not help at this path
			}
		}
	}
	return fail(fmt.Errorf("%w: last answer: %w", bmc.ErrNotSupported, refused))
}

// bootBodies lists what to send, best first.
//
//   - Supermicro: BootSourceOverrideEnabled is always sent, and the mode with it,
//     because the mode falls back to BIOS when the device changes without it.
//   - Some X10 have no BootSourceOverrideMode, some iLO 5 cannot switch it: a
//     second body leaves it out. What the mode then is, verifyBoot sees.
//   - HPE: 400 for Enabled with target None: an override is ended by Enabled
//     alone first. AMI and ASRock want mode, enabled and target together: last.
func bootBodies(override bmc.BootOverride, now *bootResource) ([]bootBody, error) {
	mode := now.Mode
	switch override.Mode {
	case bmc.ModeUEFI:
		mode = redfish.UEFIBootSourceOverrideMode
	case bmc.ModeBIOS:
		mode = redfish.LegacyBootSourceOverrideMode
	}
	if override.Target == bmc.BootNone {
		disabled, none := redfish.DisabledBootSourceOverrideEnabled, redfish.NoneBootSourceOverrideTarget
		bodies := []bootBody{{Enabled: disabled, Mode: mode}, {Enabled: disabled}, {Enabled: disabled, Target: none, Mode: mode}}
		return slices.Compact(bodies), nil
	}
	body := bootBody{Enabled: redfish.OnceBootSourceOverrideEnabled, Mode: mode}
	if override.Persistent {
		body.Enabled = redfish.ContinuousBootSourceOverrideEnabled
	}
	switch override.Target {
	case bmc.BootPXE:
		body.Target = redfish.PxeBootSourceOverrideTarget
	case bmc.BootDisk:
		body.Target = redfish.HddBootSourceOverrideTarget
	default:
		return nil, fmt.Errorf("%w: no such target", bmc.ErrNotSupported)
	}
	if len(now.AllowedTargets) > 0 && !slices.Contains(now.AllowedTargets, string(body.Target)) {
		return nil, fmt.Errorf("%w: wants %s, the system allows %s", bmc.ErrNotSupported,
			body.Target, shorten(strings.Join(now.AllowedTargets, ", "), 200))
	}
	bodies := []bootBody{body}
	if body.Mode != "" {
		body.Mode = ""
		bodies = append(bodies, body)
	}
	return bodies, nil
}

// bootPaths lists where to send it: the system; the settings resource that it
// names (iDRAC10: Boot is read-only on the main resource); AMI's future state.
func (c *conn) bootPaths(system *systemResource) []string {
	paths := []string{c.system}
	if settings := system.Settings.Object.ID; settings != "" && settings != c.system {
		paths = append(paths, settings)
	}
	return append(paths, c.system+"/SD")
}

// patchBoot sends one body to one path, with the resource's ETag where it has
// one. A tag that is another's by now (412) is read again once: nothing was
// written.
func (c *conn) patchBoot(system *systemResource, path string, body bootBody) error {
	tag := system.etag
	for attempt := 0; ; attempt++ {
		if path != c.system || attempt > 0 {
			var settings settingsResource
			if err := c.get(path, &settings); err != nil {
				return err
			}
			tag = c.transport.last.etag
		}
		var header map[string]string
		if tag != "" {
			header = map[string]string{"If-Match": cleanETag(tag)}
		}
		err := c.send(http.MethodPatch, path, map[string]any{"Boot": body}, header)
		e, ok := refusal(err)
		if !ok || e.status != http.StatusPreconditionFailed || attempt > 0 {
			return err
		}
	}
}

// cleanETag removes the "-gzip" that iDRAC's web server adds to the tag that it
// sends and does not know when it comes back (field notes).
func cleanETag(tag string) string {
	if strings.HasSuffix(tag, `-gzip"`) {
		return strings.TrimSuffix(tag, `-gzip"`) + `"`
	}
	return strings.TrimSuffix(tag, "-gzip")
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
	same := got.Target == want.Target && got.Persistent == (want.Persistent && want.Target != bmc.BootNone)
	// Where no mode is shown, there is none to be wrong.
	if want.Mode != "" && got.Mode != "" && got.Mode != want.Mode {
		same = false
	}
	if !same {
		return fmt.Errorf("%w: wants %+v, the BMC shows %+v", bmc.ErrNotApplied, want, got)
	}
	return nil
}

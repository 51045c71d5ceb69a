// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// pushImage pushes a small image of the server's firmware.
func pushImage(ctx context.Context, c bmc.Conn) error {
	image := update.Image(update.BIOS, newVersion)
	_, err := c.UpdateFirmware(ctx, bmc.Update{Image: bytes.NewReader(image), Size: int64(len(image)), Filename: "bios.bin"})
	return err
}

// TestPushWays checks the path of a pushed image, and that no image goes to a path with an unknown
// format.
func TestPushWays(t *testing.T) {
	const own = "/cgi-bin/uploadFile"
	for _, tc := range []struct {
		name   string
		p      bmctest.Personality
		change func(*labbmc.Config)
		want   string // path of the image; empty: none
	}{
		{"multipart", bmctest.Standard, nil, "/upload"},
		{"multipart before plain", bmctest.Standard, func(c *labbmc.Config) { c.Personality.HTTPPush = own }, "/upload"},
		{"plain before multipart with target", bmctest.OpenBMC, nil, "/update"},
		{"plain before multipart with target, unknown vendor", bmctest.OpenBMC, func(c *labbmc.Config) { c.Personality.Vendor = "" }, "/update"},
		{"multipart to the manager", bmctest.OpenBMC, func(c *labbmc.Config) { c.Personality.HTTPPush = "" }, "/update-multipart"},
		{"plain", bmctest.OpenBMCEarly, nil, "/UpdateService"},
		{"form", bmctest.IDRAC9Early, nil, "/FirmwareInventory"},
		{"form, by the system's vendor", bmctest.IDRAC9Early, func(c *labbmc.Config) { c.Personality.Vendor = "" }, "/FirmwareInventory"},
		{"vendor's own format", bmctest.ILO5, func(c *labbmc.Config) { c.Personality.PushPath, c.Personality.HTTPPush = "", own }, ""},
		{"none", bmctest.SupermicroX11, nil, ""},
		{"another host's path", bmctest.OpenBMCEarly, func(c *labbmc.Config) { c.Personality.HTTPPush = "//192.0.2.1/update" }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPersonality(t, tc.p, tc.change)
			conn := r.dial(t)
			ways, err := conn.UpdateMethods(t.Context())
			if err != nil || ways.Push != (tc.want != "") {
				t.Errorf("ways %+v, %v", ways, err)
			}
			err = pushImage(t.Context(), conn)
			if tc.want == "" {
				if !errors.Is(err, bmc.ErrNotSupported) || r.PushedBytes() > 0 {
					t.Errorf("error %v, and %d bytes were pushed", err, r.PushedBytes())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if writes := writesOf(r); !slices.ContainsFunc(writes, func(w string) bool { return strings.HasSuffix(w, " "+tc.want) }) {
				t.Errorf("writes %v, want one to %s", writes, tc.want)
			}
		})
	}
}

// TestPushToOneTarget checks that a BMC that requires one target gets the requested one, the
// firmware item or the manager.
func TestPushToOneTarget(t *testing.T) {
	const manager, firmware = "/redfish/v1/Managers/bmc", "/redfish/v1/UpdateService/FirmwareInventory/BIOS"
	for name, tc := range map[string]struct {
		update bmc.Update
		want   string
	}{
		"asked for":       {bmc.Update{Targets: []string{firmware}, Component: manager}, firmware},
		"by the image":    {bmc.Update{Component: firmware}, firmware},
		"nothing is said": {bmc.Update{}, manager},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.OpenBMC, func(c *labbmc.Config) { c.Personality.HTTPPush, c.Personality.Vendor = "", "" })
			image := update.Image(update.BIOS, newVersion)
			tc.update.Image, tc.update.Size = bytes.NewReader(image), int64(len(image))
			if _, err := r.dial(t).UpdateFirmware(t.Context(), tc.update); err != nil {
				t.Fatal(err)
			}
			if got := r.PushedTo(); !slices.Equal(got, []string{tc.want}) {
				t.Errorf("targets %v, want %s", got, tc.want)
			}
		})
	}
}

// TestPlainPushRejectsTargets checks that HttpPushUri, which takes only an image, is not used with
// targets.
func TestPlainPushRejectsTargets(t *testing.T) {
	for _, p := range []bmctest.Personality{bmctest.OpenBMCEarly, bmctest.IDRAC9Early} {
		r := newPersonality(t, p, nil)
		_, err := r.dial(t).UpdateFirmware(t.Context(), bmc.Update{Image: strings.NewReader("x"), Size: 1, Targets: []string{"/redfish/v1/Managers/bmc"}})
		if !errors.Is(err, bmc.ErrNotSupported) || r.PushedBytes() > 0 {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// TestPlainPushFaults checks the errors of both steps of a push.
func TestPlainPushFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		p     bmctest.Personality
		path  string
		fault labbmc.Faults
		want  error
	}{
		{"answer lost", bmctest.OpenBMCEarly, "/redfish/v1/UpdateService", labbmc.Faults{LoseReply: true}, bmc.ErrUnknownOutcome},
		{"busy", bmctest.OpenBMCEarly, "/redfish/v1/UpdateService", labbmc.Faults{Status: 503}, bmc.ErrBusy},
		{"form refused", bmctest.IDRAC9Early, "/FirmwareInventory", labbmc.Faults{Status: 503}, bmc.ErrBusy},
		{"form without Location", bmctest.IDRAC9Early, "/FirmwareInventory", labbmc.Faults{Body: "{}"}, bmc.ErrProtocol},
		{"answer of SimpleUpdate lost", bmctest.IDRAC9Early, "/UpdateService.SimpleUpdate", labbmc.Faults{LoseReply: true}, bmc.ErrUnknownOutcome},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPersonality(t, tc.p, nil)
			conn := r.dial(t)
			fault := tc.fault
			fault.Match = func(method, path string) bool { return method == "POST" && strings.HasSuffix(path, tc.path) }
			r.SetFaults(fault)
			if err := pushImage(t.Context(), conn); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

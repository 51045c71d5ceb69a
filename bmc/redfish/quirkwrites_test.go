// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// writesOf returns the writes except logins, as "PATCH 204 …/Settings".
func writesOf(r *rig) (out []string) {
	for _, w := range r.Writes() {
		if w.Action != labbmc.ActionLogin && w.Action != labbmc.ActionLogout {
			out = append(out, w.Method+" "+itoa(w.Status)+" "+w.Path[strings.LastIndex(w.Path, "/"):])
		}
	}
	return out
}

// resetAndAwait resets the BMC and waits until it has restarted and forgotten its sessions.
func resetAndAwait(ctx context.Context, c bmc.Conn) error {
	if err := c.ResetBMC(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, longWait)
	defer cancel()
	for {
		if _, err := c.PowerState(ctx); errors.Is(err, bmc.ErrUnauthorized) || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// TestQuirks checks the writes that the traits of the table cause: the BMC refuses none of them.
// Under an unknown vendor name, the same BMC gets the write that the entry avoids.
func TestQuirks(t *testing.T) {
	pxe := func(ctx context.Context, c bmc.Conn) error {
		return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE})
	}
	insert := func(ctx context.Context, c bmc.Conn) error {
		_, err := c.InsertMedia(ctx, bmc.MediaCD, "https://192.0.2.1/x.iso")
		return err
	}
	cd := func(ctx context.Context, c bmc.Conn) error {
		return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootCD})
	}
	for _, tc := range []struct {
		name    string
		persona bmctest.Personality
		do      func(context.Context, bmc.Conn) error
		// writes of this vendor's BMC; avoided is a write, or err the error, under an unknown vendor.
		writes  []string
		avoided string
		err     error
	}{
		{"boot at the settings resource", bmctest.IDRAC10, pxe, []string{"PATCH 204 /Settings"}, "PATCH 400 /System.Embedded.1", nil},
		{"boot in the future state", bmctest.AMI, pxe, []string{"PATCH 204 /SD"}, "PATCH 400 /Self", nil},
		{"no override in the future state", bmctest.AMI, func(ctx context.Context, c bmc.Conn) error {
			return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone})
		}, []string{"PATCH 204 /SD"}, "PATCH 400 /Self", nil},
		{"virtual CD", bmctest.IDRAC9, cd, []string{"PATCH 204 /iDRAC.Embedded.1"}, "PATCH 204 /System.Embedded.1", nil},
		{"virtual CD without a link", bmctest.IDRAC9Early, cd, []string{"PATCH 204 /Attributes"}, "PATCH 204 /System.Embedded.1", nil},
		{"virtual CD without a boot override", bmctest.IDRAC10, cd, []string{"PATCH 204 /iDRAC.Embedded.1"}, "PATCH 400 /System.Embedded.1", nil},
		{"reset without a type", bmctest.SupermicroX11, resetAndAwait,
			[]string{"POST 204 /Manager.Reset"}, "POST 400 /Manager.Reset", bmc.ErrNotSupported},
		{"stale image", bmctest.SupermicroX12, func(ctx context.Context, c bmc.Conn) error {
			slot, err := c.InsertMedia(ctx, bmc.MediaCD, "http://192.0.2.1/x.iso")
			return errors.Join(err, c.EjectMedia(ctx, slot.ID))
		}, []string{"POST 204 /VirtualMedia.InsertMedia", "POST 204 /VirtualMedia.EjectMedia"}, "", nil},
		{"unusable slots", bmctest.OpenBMC, insert, []string{"POST 204 /VirtualMedia.InsertMedia"}, "", nil},
		{"image shown late", bmctest.AMI, insert, []string{"POST 202 /VirtualMedia.InsertMedia"}, "", nil},
		{"image gone late", bmctest.OpenBMC, func(ctx context.Context, c bmc.Conn) error {
			slot, err := c.InsertMedia(ctx, bmc.MediaCD, "https://192.0.2.1/x.iso")
			return errors.Join(err, c.EjectMedia(ctx, slot.ID))
		}, []string{"POST 204 /VirtualMedia.InsertMedia", "POST 204 /VirtualMedia.EjectMedia"}, "", nil},
		{"firmware without If-Match", bmctest.IDRAC9, func(ctx context.Context, c bmc.Conn) error {
			_, err := c.UpdateFirmware(ctx, bmc.Update{URL: "http://127.0.0.1:1/x"})
			return err
		}, []string{"POST 202 /UpdateService.SimpleUpdate"}, "", nil},
		{"firmware as a form, then SimpleUpdate", bmctest.IDRAC9Early, pushImage,
			[]string{"POST 201 /FirmwareInventory", "POST 202 /UpdateService.SimpleUpdate"}, "POST 415 /FirmwareInventory", bmc.ErrProtocol},
		{"plain firmware image", bmctest.OpenBMCEarly, pushImage, []string{"POST 202 /UpdateService"}, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPersonality(t, tc.persona, nil)
			if err := tc.do(t.Context(), r.dial(t)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.writes, writesOf(r)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if tc.avoided == "" {
				return
			}
			unknown := newPersonality(t, tc.persona, func(c *labbmc.Config) { c.Personality.Vendor, c.System.Manufacturer = "Contoso", "Contoso" })
			if err := tc.do(t.Context(), unknown.dial(t)); !errors.Is(err, tc.err) {
				t.Errorf("unknown vendor: %v, want %v", err, tc.err)
			}
			if got := writesOf(unknown); !slices.Contains(got, tc.avoided) {
				t.Errorf("unknown vendor: %v, want %s, which the quirk avoids", got, tc.avoided)
			}
		})
	}
}

// TestOpenBMCNeedsHTTPSMedia checks that OpenBMC's refusal of http is explained.
func TestOpenBMCNeedsHTTPSMedia(t *testing.T) {
	conn := newPersonality(t, bmctest.OpenBMC, nil).dial(t)
	_, err := conn.InsertMedia(t.Context(), bmc.MediaCD, "http://192.0.2.1/x.iso")
	if !errors.Is(err, bmc.ErrNotApplied) || !strings.Contains(err.Error(), "only https and smb addresses") {
		t.Errorf("error %v", err)
	}
}

// TestErrorsHideMediaToken checks that no error shows the token of an image URL that a BMC
// repeats.
func TestErrorsHideMediaToken(t *testing.T) {
	const ticket = "KVXW2ZDPNRRW63TTMVSWC5DFMQ"
	conn := newPersonality(t, bmctest.OpenBMC, nil).dial(t)
	_, err := conn.InsertMedia(t.Context(), bmc.MediaCD, "http://boot.rack-a.dc1.example/media/"+ticket+"/agent.iso")
	if err == nil || strings.Contains(err.Error(), ticket) || !strings.Contains(err.Error(), "http://boot.rack-a.dc1.example/media/***/agent.iso") {
		t.Errorf("error %v", err)
	}
}

// TestBootModeStays checks that X11 and X12, which fall back to Legacy when the device changes
// without a mode, keep their mode.
func TestBootModeStays(t *testing.T) {
	r := newPersonality(t, bmctest.SupermicroX12, nil)
	if err := r.dial(t).SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}); err != nil {
		t.Fatal(err)
	}
	if got := r.bench.Boot(); got.Mode != labbmc.UEFI || got.Target != labbmc.TargetPXE {
		t.Errorf("boot %+v", got)
	}
}

// TestNoEmptyURI checks that an old HttpBootUri is set to "", except on iLO, which would answer
// 400 and where the old one is detected.
func TestNoEmptyURI(t *testing.T) {
	for persona, want := range map[bmctest.Personality]error{bmctest.Standard: nil, bmctest.ILO6: bmc.ErrNotApplied} {
		r := newPersonality(t, persona, nil)
		conn := r.dial(t)
		with := bmc.BootOverride{Target: bmc.BootHTTP, HTTPBootURI: "http://192.0.2.1/boot.efi"}
		if err := conn.SetBootOverride(t.Context(), with); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootHTTP}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", persona, err, want)
		}
		if got := writesOf(r); slices.ContainsFunc(got, func(w string) bool { return strings.HasPrefix(w, "PATCH 4") }) {
			t.Errorf("%s: %v", persona, got)
		}
	}
}

// TestTags checks the order of tags after a refused one: of the body, strong, none, any.
func TestTags(t *testing.T) {
	pxe := func(ctx context.Context, c bmc.Conn) error {
		return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE})
	}
	password := func(ctx context.Context, c bmc.Conn) error { return c.SetPassword(ctx, canary+"2") }
	settings := func(ctx context.Context, c bmc.Conn) error {
		return c.SetSettings(ctx, map[string]string{"QuietBoot": "false"})
	}
	for _, tc := range []struct {
		name   string
		quirks labbmc.Quirks
		do     func(context.Context, bmc.Conn) error
		writes []string
		err    error
	}{
		{"right", labbmc.Quirks{ETag: true}, pxe, []string{"PATCH 204 /437XR1138R2"}, nil},
		{"right in the body", labbmc.Quirks{ETag: true, TagInBody: true}, pxe, []string{"PATCH 412 /437XR1138R2", "PATCH 204 /437XR1138R2"}, nil},
		{"right in the body, of another resource", labbmc.Quirks{TagInBody: true}, password, []string{"PATCH 412 /1", "PATCH 204 /1"}, nil},
		{"none is", labbmc.Quirks{NoWeakTag: true}, password, []string{"PATCH 412 /1", "PATCH 412 /1", "PATCH 204 /1"}, nil},
		{"none is, and one is wanted", labbmc.Quirks{ETag: true, NoWeakTag: true}, password,
			[]string{"PATCH 412 /1", "PATCH 412 /1", "PATCH 428 /1", "PATCH 204 /1"}, nil},
		{"the strong form is", labbmc.Quirks{ETag: true, WeakTag: true}, pxe, []string{"PATCH 412 /437XR1138R2", "PATCH 204 /437XR1138R2"}, nil},
		{"the strong form is, of another resource", labbmc.Quirks{ETag: true, WeakTag: true}, password, []string{"PATCH 412 /1", "PATCH 204 /1"}, nil},
		{"weak where compressed", labbmc.Quirks{ETag: true, WeakByGzip: true}, pxe, []string{"PATCH 204 /437XR1138R2"}, nil},
		{"weak where compressed, of another resource", labbmc.Quirks{ETag: true, WeakByGzip: true}, password, []string{"PATCH 204 /1"}, nil},
		{"weak where compressed, of a large resource", labbmc.Quirks{ETag: true, WeakByGzip: true}, settings, []string{"PATCH 204 /Settings"}, nil},
		{"none shown, and any wanted", labbmc.Quirks{AnyTag: true}, pxe, []string{"PATCH 428 /437XR1138R2", "PATCH 204 /437XR1138R2"}, nil},
		{"none shown, and any wanted, of another resource", labbmc.Quirks{AnyTag: true}, password, []string{"PATCH 428 /1", "PATCH 204 /1"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) { c.Personality.Quirks = tc.quirks })
			if err := tc.do(t.Context(), r.dial(t)); !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.writes, writesOf(r)); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestEachTagIsTriedOnce checks that a BMC that refuses every precondition gets each tag once.
func TestEachTagIsTriedOnce(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, nil)
	conn := r.dial(t)
	r.SetFaults(labbmc.Faults{Status: 412, Match: func(method, _ string) bool { return method == "PATCH" }})
	if err := conn.SetPassword(t.Context(), canary+"2"); !errors.Is(err, bmc.ErrProtocol) {
		t.Errorf("error %v", err)
	}
	if n := len(writesOf(r)); n != 4 { // weak, strong, none, any
		t.Errorf("%d writes: %v", n, writesOf(r))
	}
}

// TestWritesWithTrailingSlash checks that a BMC that requires a slash at the end of a path gets
// each write once, including login and logout.
func TestWritesWithTrailingSlash(t *testing.T) {
	r := newRig(t, func(c *labbmc.Config) { c.Quirks.SlashedWrites = true })
	conn := r.dial(t)
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}); err != nil {
		t.Error(err)
	}
	if err := conn.SetPower(t.Context(), bmc.ActionOn); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"PATCH 204 /1", "POST 204 /ComputerSystem.Reset"}, writesOf(r)); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestILO4MediaByPatch checks that iLO 4, which does not know Inserted, gets only Image.
func TestILO4MediaByPatch(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) {
		c.Personality.Quirks.MediaByPatch, c.Personality.Quirks.NoMediaFlags = true, true
	})
	conn := r.dial(t)
	slot, err := conn.InsertMedia(t.Context(), bmc.MediaCD, "http://192.0.2.1/x.iso")
	if err != nil || slot.Image != "http://192.0.2.1/x.iso" {
		t.Fatalf("%+v, %v", slot, err)
	}
	if err := conn.EjectMedia(t.Context(), slot.ID); err != nil || r.Media()[0].Inserted {
		t.Errorf("ejected: %v, %+v", err, r.Media()[0])
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// everything has all links, which refer to itself.
const everything = `{"@odata.id":"/x","PowerState":"On","SessionService":{"@odata.id":"/x"},"Vendor":"Dell","UpdateService":{"@odata.id":"/x"},"AccountService":{"@odata.id":"/x"},` +
	`"Registries":{"@odata.id":"/x"},"Managers":{"@odata.id":"/x"},"VirtualMedia":{"@odata.id":"/x"},"Bios":{"@odata.id":"/x"},` +
	`"SecureBoot":{"@odata.id":"/x"},"LogServices":{"@odata.id":"/x"},"Storage":{"@odata.id":"/x"},"Memory":{"@odata.id":"/x"},` +
	`"Links":{"Chassis":[{"@odata.id":"/x"}],"ManagedBy":[{"@odata.id":"/x"}]},"FirmwareInventory":{"@odata.id":"/x"},"Accounts":{"@odata.id":"/x"},` +
	`"Thermal":{"@odata.id":"/x"},"Power":{"@odata.id":"/x"},"ThermalSubsystem":{"@odata.id":"/x"},"Fans":[{"Name":"F","Reading":"N/A"}],` +
	`"Drives":[{"@odata.id":"/x"}],"Entries":{"@odata.id":"/x"},"LogEntryType":"SEL","AttributeRegistry":"A.1","Registry":"A.1",` +
	`"Location":[{"Language":"en","Uri":"/x"}],"RegistryEntries":{"Attributes":[{"AttributeName":"A","Type":"Integer","UpperBound":5}]},` +
	`"Attributes":{"A":1,"B":"x","C":true,"D":null,"E":1.5,"F":[]},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/x"}},` +
	`"SecureBootEnable":false,"LocationIndicatorActive":true,"TaskState":"Running","PercentComplete":"half","MediaTypes":["CD"],` +
	`"MultipartHttpPushUri":"/x","Actions":{"#UpdateService.SimpleUpdate":{"target":"/x"},"#Manager.Reset":{"target":"/x"},` +
	`"#VirtualMedia.InsertMedia":{"target":"/x"},"#VirtualMedia.EjectMedia":{"target":"/x"},"#Bios.ResetBios":{"target":"/x"},` +
	`"#LogService.ClearLog":{"target":"/x"}},"Members":[{"@odata.id":"/x","Id":"7","Created":"2026-01-02T03:04:05Z","Message":"m"},7,null]%s}`

// allCalls are all calls that read or write what a BMC shows.
var allCalls = map[string]func(context.Context, bmc.Conn) error{
	"PowerState": readState,
	"Inventory":  func(ctx context.Context, c bmc.Conn) error { _, err := c.Inventory(ctx); return err },
	"MediaSlots": func(ctx context.Context, c bmc.Conn) error { _, err := c.MediaSlots(ctx); return err },
	"InsertMedia": func(ctx context.Context, c bmc.Conn) error {
		_, err := c.InsertMedia(ctx, bmc.MediaCD, "http://x/y")
		return err
	},
	"EjectMedia":      func(ctx context.Context, c bmc.Conn) error { return c.EjectMedia(ctx, "/x") },
	"Settings":        func(ctx context.Context, c bmc.Conn) error { _, err := c.Settings(ctx); return err },
	"SettingSchemas":  func(ctx context.Context, c bmc.Conn) error { _, err := c.SettingSchemas(ctx); return err },
	"PendingSettings": func(ctx context.Context, c bmc.Conn) error { _, err := c.PendingSettings(ctx); return err },
	"ResetSettings":   func(ctx context.Context, c bmc.Conn) error { return c.ResetSettings(ctx) },
	"Firmware":        func(ctx context.Context, c bmc.Conn) error { _, err := c.FirmwareInventory(ctx); return err },
	"Update": func(ctx context.Context, c bmc.Conn) error {
		_, err := c.UpdateFirmware(ctx, bmc.Update{URL: "http://x/y"})
		return err
	},
	"Push": func(ctx context.Context, c bmc.Conn) error {
		_, err := c.UpdateFirmware(ctx, bmc.Update{Image: strings.NewReader("x"), Size: 1})
		return err
	},
	"Task":          func(ctx context.Context, c bmc.Conn) error { _, err := c.Task(ctx, "/x"); return err },
	"Health":        func(ctx context.Context, c bmc.Conn) error { _, err := c.Health(ctx); return err },
	"EventLog":      func(ctx context.Context, c bmc.Conn) error { _, err := c.EventLog(ctx, 3); return err },
	"ClearEventLog": func(ctx context.Context, c bmc.Conn) error { return c.ClearEventLog(ctx) },
	"SetPassword":   func(ctx context.Context, c bmc.Conn) error { return c.SetPassword(ctx, canary+"2") },
	"SecureBoot":    func(ctx context.Context, c bmc.Conn) error { _, err := c.SecureBoot(ctx); return err },
	"SetSecureBoot": func(ctx context.Context, c bmc.Conn) error { return c.SetSecureBoot(ctx, true) },
	"ResetBMC":      func(ctx context.Context, c bmc.Conn) error { return c.ResetBMC(ctx) },
	"SetIndicator":  func(ctx context.Context, c bmc.Conn) error { return c.SetIndicator(ctx, false) },
}

// TestLimits checks that endless, huge, looping or truncated answers cost a bounded number of
// requests and bounded memory.
func TestLimits(t *testing.T) {
	chunk := []byte(strings.Repeat("A", 64<<10))
	var crowd strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&crowd, `{"@odata.id":"/m/%d"},`, i)
	}
	for _, tc := range []struct {
		name  string
		serve func(w http.ResponseWriter)
	}{
		{"loops", func(w http.ResponseWriter) { _, _ = fmt.Fprintf(w, everything, `,"Members@odata.nextLink":"/x"`) }},
		{"10,000 members", func(w http.ResponseWriter) {
			_, _ = fmt.Fprintf(w, strings.Replace(everything, `"Members":[`, `"Members":[`+crowd.String(), 1), "")
		}},
		{"truncated", func(w http.ResponseWriter) { _, _ = io.WriteString(w, everything[:len(everything)/2]) }},
		{"a gigabyte", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "1073741824")
			for range 1 << 14 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}},
		{"endless chunks", func(w http.ResponseWriter) {
			for {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}},
		{"nested", func(w http.ResponseWriter) { _, _ = io.WriteString(w, strings.Repeat(`{"Members":[`, 50_000)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			requests := 0
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests++
				_, _ = io.Copy(io.Discard, r.Body)
				switch {
				case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "Sessions"):
					w.Header().Set("Location", "/s")
					w.Header().Set("X-Auth-Token", "token")
					w.WriteHeader(http.StatusCreated)
				case r.URL.Path == "/redfish/v1/":
					_, _ = fmt.Fprintf(w, everything, "")
				case r.Method == http.MethodGet:
					tc.serve(w)
				}
			}))
			defer s.Close()
			conn, err := dialFast(t.Context(), bmc.Target{
				Address:  strings.Replace(s.URL, "https", "redfish", 1) + "/redfish/v1/Systems/1",
				Username: username, Password: canary, InsecureSkipVerify: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			for name, verb := range allCalls {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				requests = 0
				err := verb(t.Context(), conn)
				runtime.ReadMemStats(&after)
				if o := bmc.OutcomeOf(err); o == bmc.OutcomeOther || o == bmc.OutcomeTimeout {
					t.Errorf("%s: outcome %s: %v", name, o, err)
				}
				clean(t, err)
				if requests > 201 {
					t.Errorf("%s: %d requests", name, requests)
				}
				// The sum of all allocations: a read of 8 MiB allocates about five times as much.
				if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 512 {
					t.Errorf("%s: %d MiB allocated", name, n)
				}
			}
			_ = conn.Close(t.Context())
		})
	}
}

// TestPushDoesNotBuffer checks that a pushed image is never held in memory.
func TestPushDoesNotBuffer(t *testing.T) {
	const size = 256 << 20
	r := newPersonality(t, bmctest.Standard, nil)
	conn := r.dial(t)
	head := update.Image(update.BIOS, newVersion)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := conn.UpdateFirmware(t.Context(), bmc.Update{
		Image: io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, size-int64(len(head)))), Size: size,
	})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > size>>22 {
		t.Errorf("%d MiB allocated for an image of %d MiB", n, size>>20)
	}
}

// TestPushOfShortImage checks that an image that ends early causes an unknown outcome.
func TestPushOfShortImage(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, nil)
	_, err := r.dial(t).UpdateFirmware(t.Context(), bmc.Update{Image: strings.NewReader("x"), Size: 1000})
	if !errors.Is(err, bmc.ErrUnknownOutcome) {
		t.Errorf("error %v, want ErrUnknownOutcome", err)
	}
}

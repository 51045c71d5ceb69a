// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
)

const systemPath = "/redfish/v1/Systems/1"

// client is a Redfish client of its own, so that the emulator is not tested by the driver that it
// tests.
type client struct {
	t     *testing.T
	http  *http.Client
	base  string
	token string
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func start(t *testing.T, change func(*bmc.Config)) (*bmc.BMC, *bmc.Bench, *client) {
	t.Helper()
	ca, err := bmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	bench := &bmc.Bench{}
	cfg := bmc.Config{
		Authority: ca, Machine: bench, Username: "admin", Password: "secret",
		System: bmc.System{UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", Serial: "S1", MACs: []string{"52:54:00:00:00:01"}},
	}
	if change != nil {
		change(&cfg)
	}
	b, err := bmc.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	return b, bench, &client{
		t: t, base: strings.Replace(b.Address(), "redfish", "https", 1),
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: 30 * time.Second},
	}
}

// try makes a request; ok is false without an answer.
func (c *client) try(method, path, body string, header ...string) (a answer, ok bool) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, bytes.NewBufferString(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.token != "" {
		req.Header.Set("X-Auth-Token", c.token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, false
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, false
	}
	a = answer{status: resp.StatusCode, header: resp.Header}
	_ = json.Unmarshal(data, &a.body)
	return a, true
}

func (c *client) want(status int, method, path, body string, header ...string) answer {
	c.t.Helper()
	a, ok := c.try(method, path, body, header...)
	if !ok {
		c.t.Fatalf("%s %s: no answer", method, path)
	}
	if a.status != status {
		c.t.Fatalf("%s %s: %d %v, want %d", method, path, a.status, a.body, status)
	}
	return a
}

func (c *client) login() string {
	c.t.Helper()
	a := c.want(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
	c.token = a.header.Get("X-Auth-Token")
	return a.header.Get("Location")
}

func (c *client) boot() string {
	c.t.Helper()
	b, _ := c.want(200, "GET", systemPath, "").body["Boot"].(map[string]any)
	return fmt.Sprint(b["BootSourceOverrideEnabled"], " ", b["BootSourceOverrideTarget"], " ", b["BootSourceOverrideMode"])
}

func (c *client) power() any {
	c.t.Helper()
	return c.want(200, "GET", systemPath, "").body["PowerState"]
}

func (c *client) reset(kind string) {
	c.t.Helper()
	c.want(204, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"`+kind+`"}`)
}

func TestSessions(t *testing.T) {
	b, _, c := start(t, func(cfg *bmc.Config) { cfg.MaxSessions = 2 })
	c.want(200, "GET", "/redfish/v1/", "") // the root needs no session
	c.want(401, "GET", systemPath, "")
	c.want(401, "GET", systemPath, "", "Authorization", "Basic YWRtaW46c2VjcmV0")
	c.want(401, "PATCH", systemPath, `{"Boot":{}}`)
	c.want(401, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"wrong"}`)
	first := c.login()
	second := c.login()
	full := c.want(400, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
	if !strings.Contains(fmt.Sprint(full.body), "SessionLimitExceeded") {
		t.Errorf("answer to one session too many: %v", full.body)
	}
	c.want(204, "DELETE", first, "")
	if b.Sessions() != 1 || b.PeakSessions() != 2 || b.OpenedSessions() != 2 {
		t.Errorf("sessions %d, peak %d, opened %d", b.Sessions(), b.PeakSessions(), b.OpenedSessions())
	}
	c.want(404, "DELETE", first, "")
	c.want(204, "DELETE", second, "")
	c.want(401, "GET", systemPath, "") // the token ended with the session
}

func TestBootOverride(t *testing.T) {
	_, bench, c := start(t, nil)
	c.login()
	c.want(204, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`)
	if got := c.boot(); got != "Once Pxe UEFI" {
		t.Errorf("override %q", got)
	}
	c.reset("On")
	if got := c.boot(); got != "Disabled None UEFI" {
		t.Errorf("after one boot %q, want it used up", got)
	}
	c.reset("ForceRestart")
	c.want(204, "PATCH", systemPath,
		`{"Boot":{"BootSourceOverrideEnabled":"Continuous","BootSourceOverrideTarget":"Hdd","BootSourceOverrideMode":"Legacy"}}`)
	c.reset("ForceRestart")
	c.reset("GracefulRestart")
	if got := c.boot(); got != "Continuous Hdd Legacy" {
		t.Errorf("after two boots %q, want it kept", got)
	}
	c.want(400, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideTarget":"Moon"}}`)
	c.want(400, "PATCH", systemPath, `{"AssetTag":"x"}`)
	want := []bmc.Target{bmc.TargetPXE, bmc.TargetNone, bmc.TargetDisk, bmc.TargetDisk}
	if diff := cmp.Diff(want, bench.Boots()); diff != "" {
		t.Errorf("boots (-want +got):\n%s", diff)
	}
}

func TestPowerAndLog(t *testing.T) {
	b, bench, c := start(t, nil)
	c.login()
	bench.IgnoreShutdown = true
	reads := b.Reads()
	c.reset("On")
	c.reset("GracefulShutdown") // the operating system ignores it
	if got := c.power(); got != "On" {
		t.Errorf("power %v", got)
	}
	c.reset("ForceOff")
	c.want(400, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"Nmi"}`)
	c.want(400, "POST", systemPath+"/Actions/ComputerSystem.Reset", `nonsense`)
	if got := c.power(); got != "Off" {
		t.Errorf("power %v", got)
	}
	if n := b.Reads() - reads; n != 2 {
		t.Errorf("%d reads, want 2", n)
	}
	if diff := cmp.Diff([]string{"Reset On", "Reset GracefulShutdown", "Reset ForceOff"}, b.Actions()); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
	var log []string
	for _, w := range b.Writes() {
		log = append(log, fmt.Sprintf("%s %s %d", w.Method, w.Action, w.Status))
	}
	want := []string{"POST Login 201", "POST Reset On 204", "POST Reset GracefulShutdown 204", "POST Reset ForceOff 204", "POST Reset Nmi 400", "POST  400"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestFaults(t *testing.T) {
	setup := func(t *testing.T, f bmc.Faults) (*bmc.BMC, *bmc.Bench, *client) {
		b, bench, c := start(t, nil)
		c.login()
		c.reset("On")
		b.SetFaults(f)
		return b, bench, c
	}
	t.Run("status", func(t *testing.T) {
		_, bench, c := setup(t, bmc.Faults{Status: 503, RetryAfter: 7 * time.Second})
		a := c.want(503, "POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"ForceOff"}`)
		if a.header.Get("Retry-After") != "7" || !bench.Powered() {
			t.Errorf("Retry-After %q, powered %v", a.header.Get("Retry-After"), bench.Powered())
		}
	})
	t.Run("lost reply", func(t *testing.T) {
		b, bench, c := setup(t, bmc.Faults{LoseReply: true})
		if _, ok := c.try("POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"ForceOff"}`); ok || bench.Powered() {
			t.Errorf("answered %v, powered %v: want the write done and no answer", ok, bench.Powered())
		}
		if diff := cmp.Diff([]string{"Reset On", "Reset ForceOff"}, b.Actions()); diff != "" {
			t.Errorf("actions (-want +got):\n%s", diff)
		}
	})
	t.Run("hang ends with the client", func(t *testing.T) {
		b, bench, c := setup(t, bmc.Faults{Hang: true})
		c.http.Timeout = 100 * time.Millisecond
		if _, ok := c.try("POST", systemPath+"/Actions/ComputerSystem.Reset", `{"ResetType":"ForceOff"}`); ok || !bench.Powered() {
			t.Errorf("answered %v, powered %v: want neither answer nor effect", ok, bench.Powered())
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if w := b.Writes(); w[len(w)-1].Status != 0 {
			t.Errorf("log has status %d for a request without answer", w[len(w)-1].Status)
		}
	})
	t.Run("opposite power", func(t *testing.T) {
		_, _, c := setup(t, bmc.Faults{PowerLie: bmc.Opposite})
		if got := c.power(); got != "Off" {
			t.Errorf("power %v", got)
		}
	})
	t.Run("stale power", func(t *testing.T) {
		b, bench, c := setup(t, bmc.Faults{PowerLie: bmc.Stale})
		c.reset("ForceOff")
		if got := c.power(); got != "On" || bench.Powered() {
			t.Errorf("power %v, powered %v", got, bench.Powered())
		}
		b.SetFaults(bmc.Faults{})
		if got := c.power(); got != "Off" {
			t.Errorf("healed: power %v", got)
		}
	})
	t.Run("forgets boot", func(t *testing.T) {
		_, _, c := setup(t, bmc.Faults{ForgetBoot: true})
		c.want(204, "PATCH", systemPath, `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`)
		if got := c.boot(); got != "Disabled None UEFI" {
			t.Errorf("override %q", got)
		}
	})
	t.Run("only where it matches", func(t *testing.T) {
		_, _, c := setup(t, bmc.Faults{Status: 500, Match: func(_, path string) bool { return path == systemPath }})
		c.want(500, "GET", systemPath, "")
		c.want(200, "GET", "/redfish/v1/Managers/1", "")
	})
	t.Run("forgets sessions", func(t *testing.T) {
		_, _, c := setup(t, bmc.Faults{ForgetSessions: true})
		c.want(401, "GET", systemPath, "")
		c.login()
		c.want(200, "GET", systemPath, "")
	})
}

// TestNoDeadLinks follows all references from the root.
func TestNoDeadLinks(t *testing.T) {
	for name, q := range map[string]bmc.Quirks{
		"standard": {}, "adapters": {NoEthernetInterfaces: true, NetworkAdapters: true}, "action info": {ResetTypesByActionInfo: true},
		"settings": {BootSettingsURI: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, c := start(t, func(cfg *bmc.Config) { cfg.Quirks = q })
			c.login()
			seen := map[string]bool{}
			var walk func(v any)
			walk = func(v any) {
				switch v := v.(type) {
				case []any:
					for _, e := range v {
						walk(e)
					}
				case map[string]any:
					for key, e := range v {
						path, ok := e.(string)
						if ok && (key == "@odata.id" || key == "@Redfish.ActionInfo") && !seen[path] {
							seen[path] = true
							walk(c.want(200, "GET", path, "").body)
						}
						walk(e)
					}
				}
			}
			walk(map[string]any{"@odata.id": "/redfish/v1/"})
			if len(seen) < 10 {
				t.Errorf("only %d resources found: %v", len(seen), seen)
			}
		})
	}
}

func TestManyBMCsAreCheap(t *testing.T) {
	ca, err := bmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]bool{}
	for range 500 {
		b, err := bmc.Start(bmc.Config{Authority: ca, Machine: &bmc.Bench{}, Username: "u", Password: "p"})
		if err != nil {
			t.Fatal(err)
		}
		addresses[b.Address()] = true
		t.Cleanup(func() { _ = b.Close() })
	}
	if len(addresses) != 500 {
		t.Errorf("%d addresses for 500 BMCs", len(addresses))
	}
}

func TestBenchIgnoresResetWhenOff(t *testing.T) {
	b := &bmc.Bench{}
	for _, a := range []bmc.Action{bmc.Reset, bmc.Reboot, bmc.Off, bmc.On, bmc.On} {
		if err := b.Power(context.Background(), a); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.Boots()); n != 1 || !b.Powered() {
		t.Errorf("%d boots, powered %v", n, b.Powered())
	}
}

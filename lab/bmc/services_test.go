// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/session"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/test/eventually"
)

// at returns a value in the body of an answer.
func at(a answer, keys ...string) any {
	var v any = a.body
	for _, k := range keys {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[k]
	}
	return v
}

func boot(t *testing.T, m *bmc.Bench) {
	t.Helper()
	for _, a := range []bmc.Action{bmc.Off, bmc.On} {
		if err := m.Power(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSettingsApplyAtBoot(t *testing.T) {
	_, bench, c, p := startNamed(t, "standard", nil)
	bios, pending := p.System()+"/Bios", p.System()+"/Bios/Settings"
	c.want(405, "PATCH", bios, `{"Attributes":{"QuietBoot":false}}`)
	for _, tc := range []struct{ values, text string }{
		{`{"Moon":1}`, "PropertyUnknown"}, {`{"SystemBiosVersion":"2"}`, "PropertyNotWritable"},
		{`{"QuietBoot":"no"}`, "PropertyValueTypeError"}, {`{"LogicalProc":"Maybe"}`, "PropertyValueNotInList"},
		{`{"AcPwrRcvryUserDelay":59}`, "PropertyValueOutOfRange"}, {`{"AcPwrRcvryUserDelay":60.5}`, "PropertyValueTypeError"},
		{`{"AssetTag":"` + strings.Repeat("x", 64) + `"}`, "StringValueTooLong"}, {`{}`, "PropertyMissing"},
	} {
		step{"PATCH", pending, `{"Attributes":` + tc.values + `}`, 400, tc.text, ""}.run(c, p)
	}
	c.want(204, "PATCH", pending, `{"Attributes":{"QuietBoot":false,"AcPwrRcvryUserDelay":90,"BootMode":"Legacy"}}`)
	if a := c.want(200, "GET", bios, ""); at(a, "Attributes", "QuietBoot") != true {
		t.Errorf("in force before a boot: %v", a.body)
	}
	want := map[string]any{"QuietBoot": false, "AcPwrRcvryUserDelay": 90.0, "BootMode": "Legacy"}
	if diff := cmp.Diff(any(want), at(c.want(200, "GET", pending, ""), "Attributes")); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	boot(t, bench)
	a := c.want(200, "GET", bios, "")
	if at(a, "Attributes", "QuietBoot") != false || at(a, "Attributes", "AcPwrRcvryUserDelay") != 90.0 {
		t.Errorf("after the boot: %v", a.body)
	}
	if got := bench.Boot().Mode; got != bmc.Legacy {
		t.Errorf("boot mode %s", got)
	}
	if diff := cmp.Diff(any(map[string]any{}), at(c.want(200, "GET", pending, ""), "Attributes")); diff != "" {
		t.Errorf("still pending (-want +got):\n%s", diff)
	}
	c.want(204, "POST", bios+"/Actions/Bios.ResetBios", `{}`)
	boot(t, bench)
	if a := c.want(200, "GET", bios, ""); at(a, "Attributes", "QuietBoot") != true || bench.Boot().Mode != bmc.UEFI {
		t.Errorf("after the reset: %v, mode %s", a.body, bench.Boot().Mode)
	}
}

func TestRegistryDescribesTheSettings(t *testing.T) {
	for _, name := range []string{"standard", "hpe-ilo5", "ami"} { // iLO always compresses it
		t.Run(name, func(t *testing.T) {
			_, _, c, p := startNamed(t, name, nil)
			registry, _ := c.want(200, "GET", p.System()+"/Bios", "").body["AttributeRegistry"].(string)
			location, _ := c.want(200, "GET", "/redfish/v1/Registries/"+registry, "").body["Location"].([]any)
			uri, _ := location[0].(map[string]any)["Uri"].(string)
			a := c.want(200, "GET", uri, "")
			attributes, _ := at(a, "RegistryEntries", "Attributes").([]any)
			kinds := map[any]bool{}
			for _, attribute := range attributes {
				kinds[attribute.(map[string]any)["Type"]] = true
			}
			if diff := cmp.Diff(map[any]bool{"Enumeration": true, "String": true, "Integer": true, "Boolean": true, "Password": true}, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDellSettingsNeedAJob(t *testing.T) {
	_, bench, c, p := startNamed(t, "dell-idrac9", nil)
	bios, pending := p.System()+"/Bios", p.System()+"/Bios/Settings"
	patch := `{"Attributes":{"SriovGlobalEnable":"Enabled"}}`
	value := func() any { return at(c.want(200, "GET", bios, ""), "Attributes", "SriovGlobalEnable") }
	c.want(200, "PATCH", pending, patch)
	boot(t, bench)
	if value() != "Disabled" {
		t.Error("in force without a job")
	}
	c.want(400, "POST", p.Jobs, `{"TargetSettingsURI":"/redfish/v1/other"}`)
	job := c.want(200, "POST", p.Jobs, `{"TargetSettingsURI":"`+pending+`"}`).header.Get("Location")
	step{"PATCH", pending, patch, 400, "already committed", ""}.run(c, p)
	step{"POST", p.Jobs, `{"TargetSettingsURI":"` + pending + `"}`, 400, "already committed", ""}.run(c, p)
	if a := c.want(200, "GET", job, ""); a.body["JobState"] != "Scheduled" {
		t.Errorf("job %v", a.body)
	}
	boot(t, bench)
	if value() != "Enabled" || c.want(200, "GET", job, "").body["JobState"] != "Completed" {
		t.Error("the job has not run")
	}
	step{"POST", p.Jobs, `{"TargetSettingsURI":"` + pending + `"}`, 400, "no pending data", ""}.run(c, p)
	// Boot mode and Secure Boot change the same way, with the job in the PATCH.
	a := c.want(202, "PATCH", pending, `{"Attributes":{"BootMode":"Bios","SecureBoot":"Enabled"},"@Redfish.SettingsApplyTime":{"ApplyTime":"OnReset"}}`)
	boot(t, bench)
	if got := c.want(200, "GET", a.header.Get("Location"), "").body["TaskState"]; got != "Completed" || bench.Boot().Mode != bmc.Legacy {
		t.Errorf("task %v, mode %s", got, bench.Boot().Mode)
	}
	if got := c.want(200, "GET", p.System()+"/SecureBoot", "").body["SecureBootCurrentBoot"]; got != "Enabled" {
		t.Errorf("Secure Boot %v", got)
	}
}

func TestSecureBootAppliesAtBoot(t *testing.T) {
	_, bench, c, p := startNamed(t, "hpe-ilo6", nil)
	path := p.System() + "/SecureBoot"
	c.want(400, "PATCH", path, `{}`)
	c.want(204, "PATCH", path, `{"SecureBootEnable":true}`)
	if a := c.want(200, "GET", path, ""); a.body["SecureBootEnable"] != true || a.body["SecureBootCurrentBoot"] != "Disabled" {
		t.Errorf("before the boot: %v", a.body)
	}
	boot(t, bench)
	if a := c.want(200, "GET", path, ""); a.body["SecureBootCurrentBoot"] != "Enabled" {
		t.Errorf("after it: %v", a.body)
	}
}

// until reads a path until the property has the value.
func until(t *testing.T, c *client, path, property string, want any) {
	t.Helper()
	eventually.Wait{Interval: 5 * time.Millisecond}.Until(t, fmt.Sprintf("%s %v", property, want), func(context.Context) (string, error) {
		a := c.want(200, "GET", path, "")
		if a.body[property] == want {
			return "", nil
		}
		return fmt.Sprintf("it is %v", a.body), nil
	})
}

func TestSimpleUpdate(t *testing.T) {
	images := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bios":
			_, _ = w.Write(append(update.Image("BIOS", "9.0"), make([]byte, 1<<20)...))
		case "/bmc":
			_, _ = w.Write(update.Image("BMC", "8.0"))
		case "/other":
			_, _ = io.WriteString(w, "#!/bin/sh\n")
		default:
			http.NotFound(w, r)
		}
	}))
	defer images.Close()
	const action = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
	t.Run("firmware of the server", func(t *testing.T) {
		b, bench, c, p := startNamed(t, "standard", nil)
		a := c.want(202, "POST", action, `{"ImageURI":"`+images.URL+`/bios"}`)
		monitor, task := a.header.Get("Location"), a.body["@odata.id"].(string)
		c.want(202, "GET", monitor, "")
		until(t, c, task, "TaskState", "Pending")
		if bios, _ := b.Firmware(); bios != p.BIOSFirmware {
			t.Errorf("version %s before the boot", bios)
		}
		boot(t, bench)
		until(t, c, task, "TaskState", "Completed")
		c.want(200, "GET", monitor, "")
		c.want(404, "GET", monitor, "") // the result is returned once
		if got := c.want(200, "GET", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "").body["Version"]; got != "9.0" {
			t.Errorf("version %v", got)
		}
	})
	t.Run("firmware of the BMC", func(t *testing.T) {
		b, _, c, p := startNamed(t, "hpe-ilo6", nil)
		task := c.want(202, "POST", action, `{"ImageURI":"`+images.URL+`/bmc"}`).header.Get("Location")
		until(t, c, task, "TaskState", "Pending")
		b.Down()
		if err := b.Up(); err != nil {
			t.Fatal(err)
		}
		c.http.CloseIdleConnections() // a POST is not repeated on a new one
		c.login()
		if got := c.want(200, "GET", p.Manager(), "").body["FirmwareVersion"]; got != "8.0" {
			t.Errorf("version %v", got)
		}
	})
	t.Run("without a task, the version changes", func(t *testing.T) {
		b, bench, c, _ := startNamed(t, "supermicro-x11", nil)
		if a := c.want(200, "POST", action, `{"ImageURI":"`+images.URL+`/bios"}`); a.header.Get("Location") != "" {
			t.Errorf("task named: %v", a.header)
		}
		for bios, _ := b.Firmware(); bios != "9.0"; bios, _ = b.Firmware() {
			c.want(200, "GET", "/redfish/v1/UpdateService/FirmwareInventory/BIOS", "")
			boot(t, bench)
		}
	})
	t.Run("Dell's inventory", func(t *testing.T) {
		_, bench, c, p := startNamed(t, "dell-idrac9", nil)
		task := c.want(202, "POST", action, `{"ImageURI":"`+images.URL+`/bios"}`).header.Get("Location")
		until(t, c, task, "TaskState", "Starting")
		boot(t, bench)
		c.want(200, "GET", "/redfish/v1/UpdateService/FirmwareInventory/Installed-159-9.0__BIOS.Setup.1-1", "")
		c.want(200, "GET", "/redfish/v1/UpdateService/FirmwareInventory/Previous-159-"+p.BIOSFirmware+"__BIOS.Setup.1-1", "")
	})
	for name, path := range map[string]string{"no image": "/other", "not found": "/nothing"} {
		t.Run(name, func(t *testing.T) {
			_, _, c, _ := startNamed(t, "dell-idrac10", nil)
			task := c.want(202, "POST", action, `{"ImageURI":"`+images.URL+path+`"}`).header.Get("Location")
			until(t, c, task, "TaskState", "Exception")
		})
	}
	t.Run("refused", func(t *testing.T) {
		_, _, c, _ := startNamed(t, "standard", nil)
		c.want(400, "POST", action, `{"ImageURI":"file:///etc/passwd"}`)
		c.want(400, "POST", action, `{"ImageURI":"`+images.URL+`/bios","Targets":["/redfish/v1/Moon"]}`)
		_, _, none, _ := startNamed(t, "openbmc", nil)
		none.want(405, "POST", action, `{"ImageURI":"`+images.URL+`/bios"}`)
	})
}

// push makes a multipart push whose file has size bytes after its first line.
func push(t *testing.T, c *client, path string, image []byte, size int64, parts ...string) int {
	t.Helper()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		for _, part := range parts {
			if part != "UpdateFile" {
				_ = form.WriteField(part, `{"Targets":["/redfish/v1/Managers/bmc"]}`)
				continue
			}
			if out, err := form.CreateFormFile(part, "fw.bin"); err == nil {
				_, _ = io.Copy(out, io.MultiReader(bytes.NewReader(image), io.LimitReader(zeroes{}, size)))
			}
		}
		_ = form.Close()
		_ = w.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.base+path, r)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", form.FormDataContentType())
	req.Header.Set("X-Auth-Token", c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("push of %s: %d %s", parts, resp.StatusCode, text)
	return resp.StatusCode
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestPush(t *testing.T) {
	b, bench, c, p := startNamed(t, "openbmc", nil)
	const size = 16 << 20 // more than the limit of other bodies
	line := update.Image("BIOS", "7.7")
	if got := push(t, c, p.PushPath, line, size, "UpdateParameters", "UpdateFile"); got != 202 {
		t.Fatalf("push answered %d", got)
	}
	if got, want := b.PushedBytes(), int64(size+len(line)); got != want {
		t.Errorf("%d bytes taken in, want %d", got, want)
	}
	until(t, c, "/redfish/v1/TaskService/Tasks/1", "TaskState", "Pending")
	boot(t, bench)
	c.want(200, "GET", "/redfish/v1", "")
	if bios, _ := b.Firmware(); bios != "7.7" {
		t.Errorf("version %s", bios)
	}
	if diff := cmp.Diff([]string{p.Manager()}, b.PushedTo()); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	if got := push(t, c, p.PushPath, []byte("no image\n"), 0, "UpdateParameters", "UpdateFile"); got != 400 {
		t.Errorf("no image: %d", got)
	}
	if got := push(t, c, p.PushPath, line, 0, "UpdateFile", "UpdateParameters"); got != 400 {
		t.Errorf("parameters after the file: %d", got)
	}
	if got := push(t, c, p.PushPath, line, 0, "UpdateParameters"); got != 400 {
		t.Errorf("no file: %d", got)
	}
	c.want(415, "POST", p.PushPath, `{}`)
	c.token = "other"
	c.want(401, "POST", p.PushPath, `{}`)
}

func TestMediaSlotIsInUse(t *testing.T) {
	b, _, c, p := startNamed(t, "standard", nil)
	slot := p.System() + "/VirtualMedia/CD1"
	c.want(400, "POST", slot+"/Actions/VirtualMedia.InsertMedia", `{}`)
	c.want(400, "POST", slot+"/Actions/VirtualMedia.InsertMedia", `{"Image":"nfs://x/y"}`)
	c.want(204, "POST", slot+"/Actions/VirtualMedia.InsertMedia", image)
	step{"POST", slot + "/Actions/VirtualMedia.InsertMedia", image, 400, "ResourceInUse", ""}.run(c, p)
	c.want(405, "PATCH", slot, image)
	if m := b.Media()[0]; !m.Inserted || m.Image != "http://images.example/os.iso" {
		t.Errorf("slot %+v", m)
	}
	c.want(204, "POST", slot+"/Actions/VirtualMedia.EjectMedia", `{}`)
	if m := b.Media()[0]; m.Inserted || m.Image != "" {
		t.Errorf("slot %+v", m)
	}
}

func TestEventLog(t *testing.T) {
	b, bench, c, p := startNamed(t, "dell-idrac9", nil)
	log := p.Manager() + "/LogServices/Sel"
	boot(t, bench)
	b.SetHealth("Fan 1", "Critical")
	a := c.want(200, "GET", log+"/Entries", "")
	if n := a.body["Members@odata.count"]; n != 2.0 || !strings.Contains(fmt.Sprint(a.body), "Fan 1 is Critical") {
		t.Errorf("log %v", a.body)
	}
	c.want(200, "GET", log+"/Entries/1", "")
	c.want(204, "POST", log+"/Actions/LogService.ClearLog", `{}`)
	if n := c.want(200, "GET", log+"/Entries", "").body["Members@odata.count"]; n != 0.0 {
		t.Errorf("%v entries after the clearing", n)
	}
}

func TestHealthAndIndicator(t *testing.T) {
	for name, fan := range map[string]string{"standard": "/ThermalSubsystem/Fans/2", "hpe-ilo5": "/Thermal"} {
		t.Run(name, func(t *testing.T) {
			b, _, c, p := startNamed(t, name, nil)
			b.SetHealth("Fan 2", "Warning")
			if a := c.want(200, "GET", p.Chassis()+fan, ""); !strings.Contains(fmt.Sprint(a.body), "Warning") {
				t.Errorf("fan %v", a.body)
			}
			if got := at(c.want(200, "GET", p.System(), ""), "Status", "HealthRollup"); got != "Warning" {
				t.Errorf("sum %v", got)
			}
			on, wrong := `{"LocationIndicatorActive":true}`, `{"IndicatorLED":"Lit"}`
			if p.OldLED {
				on, wrong = wrong, on
			}
			c.want(400, "PATCH", p.System(), wrong)
			c.want(204, "PATCH", p.System(), on)
			if !b.Lit() {
				t.Error("not lit")
			}
		})
	}
}

func TestEvents(t *testing.T) {
	got := make(chan string, 16)
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct {
			Context string
			Events  []struct{ MessageId string }
		}
		if json.NewDecoder(r.Body).Decode(&e) == nil {
			got <- e.Context + " " + e.Events[0].MessageId
		}
	}))
	defer sink.Close()
	const subscriptions = "/redfish/v1/EventService/Subscriptions"
	b, bench, c, p := startNamed(t, "hpe-ilo6", nil)
	c.want(400, "POST", subscriptions, `{"Destination":"tcp://x","Protocol":"Redfish"}`)
	c.want(400, "POST", subscriptions, `{"Destination":"`+sink.URL+`","Protocol":"Smoke"}`)
	path := c.want(201, "POST", subscriptions, `{"Destination":"`+sink.URL+`","Protocol":"Redfish","Context":"host-1"}`).header.Get("Location")
	c.want(200, "GET", path, "")
	// The machine switches without a request to the BMC.
	if err := bench.Power(t.Context(), bmc.On); err != nil {
		t.Fatal(err)
	}
	if e := <-got; e != "host-1 "+p.PowerEvents[0] {
		t.Errorf("event %q", e)
	}
	// A stream gets the same event.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/redfish/v1/EventService/SSE", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Auth-Token", c.token)
	resp, err := c.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() {
		t.Fatal("the stream says nothing")
	}
	if err := bench.Power(t.Context(), bmc.Off); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "data: ") {
	}
	if !strings.Contains(lines.Text(), p.PowerEvents[1]) {
		t.Errorf("stream says %q", lines.Text())
	}
	if e := <-got; e != "host-1 "+p.PowerEvents[1] {
		t.Errorf("event %q", e)
	}
	b.Down() // the stream ends, the subscription stays
	for lines.Scan() {
	}
	if err := b.Up(); err != nil {
		t.Fatal(err)
	}
	c.http.CloseIdleConnections()
	c.login()
	c.want(204, "DELETE", path, "")
	c.want(404, "DELETE", path, "")
	if n := b.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions", n)
	}
	for range p.Subscriptions {
		c.want(201, "POST", subscriptions, `{"Destination":"`+sink.URL+`","Protocol":"Redfish"}`)
	}
	c.want(400, "POST", subscriptions, `{"Destination":"`+sink.URL+`","Protocol":"Redfish"}`)
}

// TestSessionContext checks that the Context of a login is stored if the personality does that.
func TestSessionContext(t *testing.T) {
	const login = `{"UserName":"admin","Password":"secret","Context":"ours"}`
	for name, keeps := range map[string]bool{"openbmc": true, "standard": true, "dell-idrac9": false} {
		t.Run(name, func(t *testing.T) {
			_, _, c, _ := startNamed(t, name, nil)
			if !keeps {
				c.want(400, "POST", session.Path, login)
				return
			}
			path := c.want(201, "POST", session.Path, login).header.Get("Location")
			if got := at(c.want(200, "GET", path, ""), "Context"); got != "ours" {
				t.Errorf("Context %v", got)
			}
		})
	}
}

func TestSessionsTimeOut(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b, _, c, p := startNamed(t, "supermicro-x11", func(cfg *bmc.Config) { cfg.Now = func() time.Time { return now } })
	now = now.Add(p.SessionTimeout - time.Second)
	c.want(200, "GET", p.System(), "") // a request restarts the timeout
	now = now.Add(p.SessionTimeout - time.Second)
	c.want(200, "GET", p.System(), "")
	now = now.Add(p.SessionTimeout + time.Second)
	c.want(401, "GET", p.System(), "")
	if n := b.Sessions(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

func TestETags(t *testing.T) {
	_, _, c, p := startNamed(t, "standard", nil)
	settings := p.System() + "/Bios/Settings"
	tag := c.want(200, "GET", settings, "").header.Get("ETag")
	patch := `{"Attributes":{"QuietBoot":false}}`
	c.want(412, "PATCH", settings, patch, "If-Match", `W/"other"`)
	c.want(204, "PATCH", settings, patch, "If-Match", tag)
	c.want(412, "PATCH", settings, patch, "If-Match", tag) // the ETag has changed
	c.want(204, "PATCH", settings, patch, "If-Match", "*")
	c.want(412, "PATCH", p.System(), oncePX, "If-Match", `"other"`)
	c.want(204, "PATCH", p.System(), oncePX, "If-Match", c.want(200, "GET", p.System(), "").header.Get("ETag"))
}

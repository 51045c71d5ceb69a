// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/test/needs"
)

func wantSetting(name, value string) func(*infrav1.IngotHost) {
	return func(h *infrav1.IngotHost) {
		h.Spec.BIOS = &infrav1.BIOSConfiguration{Settings: map[string]string{name: value}, Apply: infrav1.BIOSBeforeProvisioning}
	}
}

func wantFirmware(component, version, url string) func(*infrav1.IngotHost) {
	return func(h *infrav1.IngotHost) {
		h.Spec.Firmware = []infrav1.FirmwareComponent{{Component: component, Version: version, URL: url}}
	}
}

// prepared returns a server of a vendor with an agent that always succeeds.
func prepared(t *testing.T, on *testEnv, maker string, settings ...func(*infrav1.IngotHost)) *simHost {
	t.Helper()
	return newSimHost(t, on, maker, append([]func(*infrav1.IngotHost){func(h *infrav1.IngotHost) { h.Spec.Maintenance = nil }}, settings...)...)
}

// agent reports success for the current order.
func (m *simHost) agent() {
	m.t.Helper()
	host := m.get("h")
	if host.Spec.Order == nil || host.Spec.Order.Result != nil || host.Status.Power != infrav1.PowerStateOn {
		return
	}
	m.describe(host)
	m.edit("h", func(h *infrav1.IngotHost) {
		h.Spec.Order.AgentKey = strings.Repeat("a", 64)
		h.Spec.Order.Result = &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.NewTime(m.clock.Now().Add(time.Second))}
	})
}

// lives reconciles and steps the clock until done; each is called after each reconcile.
func (m *simHost) lives(what string, done func(*infrav1.IngotHost) bool, each ...func(*infrav1.IngotHost)) *infrav1.IngotHost {
	m.t.Helper()
	for range 150 {
		m.tick()
		host := m.get("h")
		for _, see := range each {
			see(host)
		}
		if done(host) {
			return host
		}
		m.agent()
		m.clock.Step(31 * time.Second)
	}
	m.t.Fatalf("never %s: record %+v, conditions %+v", what, m.get("h").Spec.Record, m.get("h").Status.Conditions)
	return nil
}

// installed runs until the host is claimed and installed.
func (m *simHost) installed() {
	m.t.Helper()
	m.lives("available", isAvailable)
	m.claim("h")
	m.lives("ordered", func(h *infrav1.IngotHost) bool { return h.Spec.Order != nil && h.Status.Power == infrav1.PowerStateOn })
	m.edit("h", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Order = infrav1.ClaimProvisioned, nil })
}

func isAvailable(h *infrav1.IngotHost) bool {
	available := conditions.Get(h, infrav1.HostAvailableCondition)
	return available != nil && available.Status == metav1.ConditionTrue && available.ObservedGeneration == h.Generation
}

func isReason(reason string) func(*infrav1.IngotHost) bool {
	return func(h *infrav1.IngotHost) bool {
		c := conditions.Get(h, infrav1.HostPreparedCondition)
		return c != nil && c.Reason == reason && c.ObservedGeneration == h.Generation
	}
}

// count returns how often the BMC got an action.
func (m *simHost) count(action string) (n int) {
	for _, done := range m.lab.Actions() {
		if strings.HasPrefix(done, action) {
			n++
		}
	}
	return n
}

// setting returns the value in force, read without Ingot.
func (m *simHost) setting(name string) string {
	m.t.Helper()
	var value string
	m.direct(func(ctx context.Context, conn bmc.Conn) error {
		settings, err := conn.Settings(ctx)
		value = settings[name].String()
		return err
	})
	return value
}

func (m *simHost) direct(do func(context.Context, bmc.Conn) error) {
	m.t.Helper()
	ctx := context.Background()
	conn, err := redfish.Dial(ctx, bmc.Target{Address: m.lab.Address(), Username: "root", Password: canary, InsecureSkipVerify: true})
	must(m.fixture, err)
	defer func() { _ = conn.Close(ctx) }()
	must(m.fixture, do(ctx, conn))
}

// The settings of a new host are applied with the boot of its inspection. At rest nothing is read
// or written for them.
func testSettingsAreAppliedWithTheInspection(t *testing.T, on *testEnv) {
	for _, maker := range []string{"standard", "dell-idrac9", "hpe-ilo6", "supermicro-x12", "lenovo-xcc", "ami"} {
		t.Run(maker, func(t *testing.T) {
			m := prepared(t, on, maker, wantSetting("SriovGlobalEnable", "Enabled"))
			m.lives("available", isAvailable)
			m.want("h", infrav1.HostPreparedCondition, metav1.ConditionTrue, infrav1.ReasonPrepared)
			if boots := m.count("Reset On"); boots != 1 || m.setting("SriovGlobalEnable") != "Enabled" {
				t.Errorf("%d boots, and the setting is %q; want 1 and Enabled", boots, m.setting("SriovGlobalEnable"))
			}
			m.tick()
			reads, version := m.lab.Reads(), m.get("h").ResourceVersion
			for range 5 {
				m.clock.Step(time.Minute)
				m.tick()
			}
			if more := m.lab.Reads() - reads; more > 5 || m.get("h").ResourceVersion != version {
				t.Errorf("a host at rest: %d reads in 5 minutes, written %t", more, m.get("h").ResourceVersion != version)
			}
		})
	}
}

// A free host whose settings change cannot be claimed until the boot that applies them. Changes
// behind Ingot's back are noticed at the next reading.
func testChangedSettingsBlockClaims(t *testing.T, on *testEnv) {
	m := prepared(t, on, "standard")
	m.lives("available", isAvailable)
	m.want("h", infrav1.HostPreparedCondition, metav1.ConditionUnknown, infrav1.ReasonNotApplicable)
	m.edit("h", wantSetting("QuietBoot", "False"))
	if ok, _ := lifecycle.IsClaimable(m.get("h")); ok {
		t.Error("claimable before its settings were read")
	}
	preparing := false
	m.lives("available again", isAvailable, func(h *infrav1.IngotHost) {
		preparing = preparing || h.Status.Phase == infrav1.PhasePreparing
		if ok, _ := lifecycle.IsClaimable(h); ok && m.setting("QuietBoot") != "false" {
			t.Errorf("claimable, while the setting is %q", m.setting("QuietBoot"))
		}
	})
	if boots := m.count("Reset On"); boots != 2 || !preparing {
		t.Errorf("%d boots, shown as preparing %t", boots, preparing)
	}

	m.direct(func(ctx context.Context, conn bmc.Conn) error {
		return conn.SetSettings(ctx, map[string]string{"QuietBoot": "true"})
	})
	m.clock.Step(m.Policy.ReadingAge)
	m.tick() // a pending value of another client would apply at the next boot
	m.lives("as wanted at the next boot", func(h *infrav1.IngotHost) bool { return isAvailable(h) })
	if boots := m.count("Reset On"); boots != 2 || m.setting("QuietBoot") != "false" {
		t.Errorf("%d boots, the setting is %q", boots, m.setting("QuietBoot"))
	}
}

// Settings that the BMC does not support are reported at once, without write or boot.
func testUnsupportedSettings(t *testing.T, on *testEnv) {
	for name, tc := range map[string]struct {
		maker  string
		wish   func(*infrav1.IngotHost)
		reason string
		says   string
		read   bool // by a reading, not by the answer to a write
	}{
		"an unknown setting":   {"standard", wantSetting("logicalproc", "Enabled"), infrav1.ReasonSettingsRejected, `did you mean "LogicalProc"? Correct`, true},
		"a value not offered":  {"dell-idrac9", wantSetting("LogicalProc", "Perhaps"), infrav1.ReasonSettingsRejected, "must be one of Enabled, Disabled", false},
		"a number too small":   {"hpe-ilo5", wantSetting("AcPwrRcvryUserDelay", "7"), infrav1.ReasonSettingsRejected, "less than 60", false},
		"no settings at all":   {"openbmc", wantSetting("LogicalProc", "Disabled"), infrav1.ReasonSettingsRejected, "does not support BIOS settings", true},
		"an unknown component": {"standard", wantFirmware("Toaster", "2", "http://images.example/t"), infrav1.ReasonFirmwareRejected, `it has "BIOS", "BMC"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := prepared(t, on, tc.maker)
			m.lives("available", isAvailable)
			boots := m.count("Reset On")
			m.edit("h", tc.wish)
			host := m.lives("refused", isReason(tc.reason))
			if p := host.Spec.Record.Preparation; tc.read && p != nil && p.Outcome == infrav1.PreparationFailed {
				t.Error("given up by the first reading, which a BMC that starts may give")
			}
			message := m.want("h", infrav1.HostPreparedCondition, metav1.ConditionFalse, tc.reason).Message
			m.lives("shown", func(h *infrav1.IngotHost) bool {
				return conditions.GetReason(h, infrav1.ReadyCondition) == tc.reason
			})
			if !strings.Contains(message, tc.says) || !strings.Contains(message, infrav1.InspectAnnotation) {
				t.Errorf("message %q: want %q and a remedy", message, tc.says)
			}
			if isAvailable(m.get("h")) || m.count("Reset On") != boots || m.count("Bios") != 0 || m.count("SimpleUpdate") != 0 {
				t.Errorf("available %t, actions %q", isAvailable(host), m.lab.Actions())
			}
			m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BIOS, h.Spec.Firmware = nil, nil })
			m.lives("available without the wish", isAvailable)
		})
	}
}

// I2: settings of a host in use are read, written only by command, and never cause a power action.
func testSettingsOfAHostInUse(t *testing.T, on *testEnv) {
	m := prepared(t, on, "standard")
	m.installed()
	m.clock.Step(m.Policy.AgentDeadline)
	m.lives("provisioned", func(h *infrav1.IngotHost) bool { return h.Status.Phase == infrav1.PhaseProvisioned })
	switched := m.count("Reset")

	m.edit("h", wantSetting("SriovGlobalEnable", "Enabled"))
	m.lives("shown", isReason(infrav1.ReasonSettingsNotApplied))
	message := m.want("h", infrav1.HostPreparedCondition, metav1.ConditionFalse, infrav1.ReasonSettingsNotApplied).Message
	for _, part := range []string{"SriovGlobalEnable", `"Disabled"`, `"Enabled"`, "AtNextReboot"} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q does not name %s", message, part)
		}
	}
	m.want("h", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)
	if m.count("Bios") != 0 {
		t.Error("settings are written to a host in use without a command")
	}
	m.edit("h", func(h *infrav1.IngotHost) { h.Spec.BIOS.Apply = infrav1.BIOSAtNextReboot })
	m.lives("pending", isReason(infrav1.ReasonRebootPending))
	m.want("h", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)
	for range 5 {
		m.clock.Step(m.Policy.DriftAge)
		m.tick()
	}
	if m.count("Bios") != 1 || m.count("Reset") != switched || m.setting("SriovGlobalEnable") != "Disabled" {
		t.Errorf("actions %q: want one write, and no switch", m.lab.Actions())
	}
	m.direct(func(ctx context.Context, conn bmc.Conn) error { return conn.SetPower(ctx, bmc.ActionForceRestart) })
	m.clock.Step(m.Policy.DriftAge)
	m.lives("in force", isReason(infrav1.ReasonPrepared))
	if m.count("Bios") != 1 {
		t.Errorf("actions %q", m.lab.Actions())
	}
}

// images serves firmware; other paths are 404.
func images(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		component, version, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "-")
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(update.Image(component, version))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Firmware is installed with progress, verified by its version, in one boot.
func testFirmware(t *testing.T, on *testEnv) {
	url := images(t)
	makers := map[string]string{
		"standard": "BIOS", "dell-idrac9": "bios",
		"supermicro-x11": "BIOS", // it reports no task
	}
	if needs.IsFull() {
		makers["hpe-ilo6"], makers["lenovo-xcc"], makers["ami"] = "BIOS", "BIOS", "BIOS"
	}
	for maker, component := range makers {
		t.Run(maker, func(t *testing.T) {
			m := prepared(t, on, maker, wantFirmware(component, "9.9", url+"/BIOS-9.9"), wantSetting("SriovGlobalEnable", "Enabled"))
			seen := map[string]bool{}
			percent := int32(-1)
			m.lives("available", isAvailable, func(h *infrav1.IngotHost) {
				if o := h.Status.Operation; o != nil {
					seen[string(o.Kind)+" "+o.Step] = true
					if o.Kind == infrav1.OperationUpdate {
						percent = max(percent, ptr.Deref(o.Percent, -1))
					}
				}
				if ok, _ := lifecycle.IsClaimable(h); ok {
					if bios, _ := m.lab.Firmware(); bios != "9.9" {
						t.Error("claimable before its firmware is in force")
					}
				}
			})
			bios, _ := m.lab.Firmware()
			if bios != "9.9" || m.count("SimpleUpdate") != 1 || m.count("Reset On") != 2 || m.setting("SriovGlobalEnable") != "Enabled" {
				t.Errorf("version %s, actions %q", bios, m.lab.Actions())
			}
			if !seen["Update Update"+component] || (maker != "supermicro-x11" && percent < 1) {
				t.Errorf("operations %v, up to %d %%", seen, percent)
			}
			m.want("h", infrav1.HostPreparedCondition, metav1.ConditionTrue, infrav1.ReasonPrepared)
		})
	}
}

// A failed update is tried three times and reported with the BMC's text. A changed spec or an
// inspect command tries again.
func testFirmwareFails(t *testing.T, on *testEnv) {
	t.Run("busy", func(t *testing.T) { testFirmwareBusy(t, on) })
	if needs.IsFull() {
		t.Run("image", func(t *testing.T) { testFirmwareImage(t, on) })
	}
	url := images(t)
	digest := sha256.Sum256(update.Image("BIOS", "9.9"))
	good := "sha256:" + hex.EncodeToString(digest[:])
	for name, tc := range map[string]struct {
		maker    string
		url      string
		checksum string
		says     string
		updates  int
	}{
		"no image":         {"standard", url + "/nothing", "", "404", 3}, // without a checksum none of the three attempts is a push
		"not this file":    {"standard", url + "/BIOS-8.8", good, "its checksum is", 0},
		"no file to check": {"standard", url + "/nothing", good, "404", 0},
		"another version":  {"standard", url + "/BIOS-8.8", "", "another version", 3},
	} {
		if !needs.IsFull() && name != "not this file" && name != "another version" {
			continue // minutes under the race detector
		}
		t.Run(name, func(t *testing.T) {
			m := prepared(t, on, tc.maker, wantFirmware("BIOS", "9.9", tc.url), func(h *infrav1.IngotHost) {
				h.Spec.Firmware[0].Checksum = tc.checksum
			})
			var asked []time.Time
			spaced := func(*infrav1.IngotHost) {
				for m.asked("SimpleUpdate") > len(asked) {
					asked = append(asked, m.clock.Now())
				}
			}
			m.lives("given up", func(h *infrav1.IngotHost) bool {
				return h.Spec.Record != nil && h.Spec.Record.Preparation != nil && h.Spec.Record.Preparation.Outcome == infrav1.PreparationFailed &&
					isReason(infrav1.ReasonFirmwareUpdateFailed)(h)
			}, spaced)
			for i := 1; i < len(asked); i++ {
				if gap := asked[i].Sub(asked[i-1]); gap < m.Policy.UpdateRead {
					t.Errorf("attempt %d comes %s after the one before: what kept it from working has not passed", i+1, gap)
				}
			}
			message := m.want("h", infrav1.HostPreparedCondition, metav1.ConditionFalse, infrav1.ReasonFirmwareUpdateFailed).Message
			if !strings.Contains(message, tc.says) || m.count("SimpleUpdate") != tc.updates {
				t.Errorf("%d updates, want %d; message %q, want %q", m.count("SimpleUpdate"), tc.updates, message, tc.says)
			}
			m.edit("h", func(h *infrav1.IngotHost) {
				h.Spec.Firmware[0].URL, h.Spec.Firmware[0].Checksum = url+"/BIOS-9.9", good
			})
			m.lives("available", isAvailable)
		})
	}
}

// A healthy BMC that rejects updates for now is retried at growing intervals, without counting
// against the host and without writes at each reconcile (I13).
func testFirmwareBusy(t *testing.T, on *testEnv) {
	m := prepared(t, on, "standard")
	m.lives("available", isAvailable)
	m.lab.SetFaults(labbmc.Faults{Match: func(_, path string) bool { return strings.HasSuffix(path, "SimpleUpdate") }, Status: http.StatusServiceUnavailable})
	url := images(t)
	m.edit("h", wantFirmware("BIOS", "9.9", url+"/BIOS-9.9"))
	for range 30 {
		m.tick()
	}
	if n := m.asked("SimpleUpdate"); n != 1 {
		t.Errorf("in one moment the BMC was asked %d times, want 1", n)
	}
	version := m.get("h").ResourceVersion
	m.tick()
	if now := m.get("h").ResourceVersion; now != version {
		t.Error("the host is written at each reconcile")
	}
	reads := m.lab.Reads()
	for range 5 {
		m.tick()
	}
	if more := m.lab.Reads() - reads; more > 5 {
		t.Errorf("%d reads in 5 reconciles: firmware is read before it is needed", more)
	}
	if told := m.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonPreparing).Message; !strings.Contains(told, "waits") || !strings.Contains(told, "503") {
		t.Errorf("message %q does not say what the BMC answers", told)
	}
	for range 60 { // an hour
		m.clock.Step(time.Minute)
		m.tick()
	}
	if n := m.asked("SimpleUpdate"); n < 10 || n > 20 {
		t.Errorf("in an hour the BMC was asked %d times, want about 15", n)
	}
	if p := m.get("h").Spec.Record.Preparation; p != nil && (p.Attempt != 0 || p.Outcome != infrav1.PreparationOutcome("") && p.Outcome != infrav1.PreparationApplied) {
		t.Errorf("counted against the host: %+v", p)
	}
	m.lab.SetFaults(labbmc.Faults{})
	m.lives("available again", isAvailable)
}

// An image whose server fails is downloaded again, without counting against the host. The download
// blocks no worker and runs once.
func testFirmwareImage(t *testing.T, on *testEnv) {
	digest := sha256.Sum256(update.Image("BIOS", "9.9"))
	var reads, broken atomic.Int64
	broken.Store(1)
	held := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads.Add(1)
		if broken.Load() > 0 {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		<-held
		_, _ = w.Write(update.Image("BIOS", "9.9"))
	}))
	t.Cleanup(server.Close)
	m := prepared(t, on, "standard")
	m.lives("available", isAvailable)
	m.edit("h", func(h *infrav1.IngotHost) {
		wantFirmware("BIOS", "9.9", server.URL+"/BIOS-9.9?signature=secret")(h)
		h.Spec.Firmware[0].Checksum = "sha256:" + hex.EncodeToString(digest[:])
	})
	told := m.lives("put off", func(h *infrav1.IngotHost) bool {
		c := conditions.Get(h, infrav1.ReadyCondition)
		return strings.Contains(c.Message, "502")
	})
	if c := conditions.Get(told, infrav1.ReadyCondition); strings.Contains(c.Message, "signature") {
		t.Errorf("the URL's query is shown: %s", c.Message)
	}
	for range 20 {
		m.clock.Step(5 * time.Minute)
		for range 4 {
			m.tick()
			time.Sleep(time.Millisecond)
		}
	}
	if p := m.get("h").Spec.Record.Preparation; p != nil && p.Outcome == infrav1.PreparationFailed {
		t.Fatalf("given up for a server that fails: %+v", p)
	}
	broken.Store(0)
	before := reads.Load()
	m.lives("reading", func(*infrav1.IngotHost) bool { return reads.Load() > before })
	for range 10 { // the server holds its answer back
		m.clock.Step(time.Minute)
		m.tick()
	}
	if n := m.asked("SimpleUpdate"); n != 0 || reads.Load() != before+1 {
		t.Errorf("%d updates and %d readings while the image is read, want 0 and 1", n, reads.Load()-before)
	}
	close(held)
	m.lives("available again", isAvailable)
}

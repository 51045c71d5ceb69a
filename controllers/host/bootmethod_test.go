// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// fakeDrive is what the fake BMC knows of virtual media, Secure Boot and HTTP boot. The
// zero value knows none of them.
type fakeDrive struct {
	there   bool
	image   string
	persons string // an operator's image, in another drive
	// insertErr and ejectErr, if set, are the answers; lost: the action takes effect
	// anyway.
	insertErr, ejectErr error
	lost                bool
	// secure is Secure Boot, if known; uris are the URLs of HTTP boot.
	secureKnown, secure bool
	secureMode          string
	uris                []string
	noURI               bool
	// shown, if set, is the image URL that the first drive reports.
	shown *string
}

func (f *fakeBMC) MediaSlots(context.Context) ([]bmc.MediaSlot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.drive.there {
		return nil, bmc.ErrNotSupported
	}
	image := f.drive.image
	if f.drive.shown != nil && image != "" {
		image = *f.drive.shown
	}
	return []bmc.MediaSlot{
		{ID: "/1", Kinds: []bmc.MediaKind{bmc.MediaCD}, Image: image, Inserted: f.drive.image != ""},
		{ID: "/2", Image: f.drive.persons, Inserted: f.drive.persons != ""},
	}, nil
}

func (f *fakeBMC) InsertMedia(_ context.Context, kind bmc.MediaKind, url string) (bmc.MediaSlot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.drive.there {
		return bmc.MediaSlot{}, bmc.ErrNotSupported
	}
	f.writes = append(f.writes, "insert "+string(kind))
	if f.drive.insertErr == nil || f.drive.lost {
		f.drive.image = url
	}
	return bmc.MediaSlot{ID: "/1"}, f.drive.insertErr
}

func (f *fakeBMC) EjectMedia(_ context.Context, slot string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, "eject "+slot)
	if f.drive.ejectErr == nil || f.drive.lost {
		f.drive.image = ""
	}
	return f.drive.ejectErr
}

func (f *fakeBMC) SecureBoot(context.Context) (bmc.SecureBootState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.drive.secureKnown {
		return bmc.SecureBootState{}, bmc.ErrNotSupported
	}
	return bmc.SecureBootState{Enabled: f.drive.secure, Mode: f.drive.secureMode}, nil
}

func (f *fakeBMC) SetSecureBoot(_ context.Context, enabled bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = append(f.writes, fmt.Sprintf("secure boot %v", enabled))
	f.drive.secure = enabled
	return nil
}

// newBootFixture returns a fixture with a boot server and a host.
func newBootFixture(t *testing.T, on *testEnv, change func(*infrav1.IngotHost)) *fixture {
	t.Helper()
	y := newFixture(t, on)
	y.Boot = BootServer{URL: "http://192.0.2.1:8880", MediaToken: func(h *infrav1.IngotHost) string {
		return fmt.Sprintf("ticket-%d", h.Spec.Order.Attempt)
	}}
	y.bmc.drive.there = true
	y.ready("h", change)
	return y
}

// untilWrites reconciles until the BMC gets a write, and returns the writes.
func (y *fixture) untilWrites(name string) string {
	y.t.Helper()
	for range 15 {
		y.step(name)
		if writes := y.bmc.took(); writes != "" {
			return writes
		}
		y.clock.Step(31 * time.Second)
	}
	y.t.Fatalf("nothing is written to the BMC: %+v", y.get(name).Status.Conditions)
	return ""
}

func byMedia(h *infrav1.IngotHost) { h.Spec.BootMethod = infrav1.BootMethodVirtualMedia }

// noted reports whether the record has an inserted image.
func (y *fixture) noted(name string) bool {
	r := y.get(name).Spec.Record
	return r != nil && !r.VirtualMediaTime.IsZero()
}

func testVirtualMedia(t *testing.T, on *testEnv) {
	t.Run("a life", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.drive.persons = "http://192.0.2.9/rescue.iso"
		if got := y.untilWrites("h"); got != "insert CD, boot CD UEFI, On" || !y.noted("h") {
			t.Fatalf("booted by %q, remembered: %v", got, y.noted("h"))
		}
		if got := y.bmc.drive.image; got != "http://192.0.2.1:8880/media/ticket-1/agent.iso" {
			t.Errorf("in the drive is %q", got)
		}
		y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
		y.clock.Step(31 * time.Second)
		y.step("h")
		if got := y.bmc.took(); got != "" {
			t.Errorf("while it boots: %s", got)
		}
		// The agent's first report: its system is in memory.
		y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
		if got := y.untilWrites("h"); got != "eject /1" || y.noted("h") || y.bmc.drive.persons == "" {
			t.Errorf("the agent speaks: %q, remembered: %v", got, y.noted("h"))
		}
		y.finish("h")
		y.until("h", "available", func(h *infrav1.IngotHost) bool { return conditions.IsTrue(h, infrav1.HostAvailableCondition) })
		y.atRest("h")
	})
	t.Run("a kill between the drive and the power", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.writeErr = bmc.ErrBusy
		if got := y.untilWrites("h"); got != "insert CD, boot CD UEFI, On" || !y.noted("h") {
			t.Fatalf("booted by %q, remembered: %v", got, y.noted("h"))
		}
		// After the crash, an operator changed the method.
		y.memory = hostMemory{}
		y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BootMethod = "" })
		y.bmc.set(func(f *fakeBMC) { f.writeErr = nil })
		y.clock.Step(10 * time.Minute)
		if got := y.untilWrites("h"); got != "eject /1" || y.noted("h") {
			t.Errorf("then %q, remembered: %v", got, y.noted("h"))
		}
	})
	t.Run("no answer to the insertion", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.drive.insertErr, y.bmc.drive.lost = bmc.ErrUnknownOutcome, true
		if got := y.untilWrites("h"); got != "insert CD, boot CD UEFI, On" {
			t.Errorf("read back, then %q", got)
		}
	})
	t.Run("no answer to the insertion, and no image in the drive", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.drive.insertErr = bmc.ErrUnknownOutcome
		if got := y.untilWrites("h"); got != "insert CD" {
			t.Errorf("got %q", got)
		}
		y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonBMCError)
	})
	t.Run("an insertion that fails switches nothing on", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.drive.insertErr = bmc.ErrNotApplied
		if got := y.untilWrites("h"); got != "insert CD" {
			t.Errorf("got %q", got)
		}
		y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonBMCError)
	})
	testEjection(t, on)
	t.Run("an override that is refused", func(t *testing.T) { testRejectedOverride(t, on, byMedia, "insert CD, boot CD UEFI") })
	t.Run("no boot server", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.Boot = BootServer{}
		y.until("h", "shown", func(h *infrav1.IngotHost) bool {
			return conditions.GetReason(h, infrav1.ReadyCondition) == infrav1.ReasonBootServerUnknown
		})
		if got := y.bmc.took(); got != "" {
			t.Errorf("and yet %s", got)
		}
	})
}

// A failed ejection is reported and does not block the host for long.
func testEjection(t *testing.T, on *testEnv) {
	t.Run("an unsupported ejection is reported and blocks nothing", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.untilWrites("h")
		y.bmc.set(func(f *fakeBMC) { f.power, f.drive.ejectErr = bmc.PowerOn, bmc.ErrNotSupported })
		y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
		if got := y.untilWrites("h"); got != "eject /1" || y.noted("h") {
			t.Errorf("got %q, remembered: %v", got, y.noted("h"))
		}
		y.recordedOnce(infrav1.ReasonVirtualMediaEjectFailed)
	})
	for name, err := range map[string]error{"a person has it open": bmc.ErrBusy, "it still shows the image": bmc.ErrNotApplied, "no answer": bmc.ErrUnknownOutcome, "it takes too long": bmc.ErrTimeout} {
		t.Run("an ejection that fails for good holds up nothing for long: "+name, func(t *testing.T) {
			y := newBootFixture(t, on, byMedia)
			y.untilWrites("h")
			y.bmc.set(func(f *fakeBMC) { f.power, f.drive.ejectErr = bmc.PowerOn, err })
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
			for range maxEjections {
				if got := y.untilWrites("h"); got != "eject /1" {
					t.Fatalf("got %q", got)
				}
				y.clock.Step(10 * time.Minute)
			}
			if y.noted("h") {
				t.Errorf("after %d tries it is not let be", maxEjections)
			}
			y.recordedOnce(infrav1.ReasonVirtualMediaEjectFailed)
		})
	}
	t.Run("an ejection that is refused is no order to switch", func(t *testing.T) {
		y := newBootFixture(t, on, byMedia)
		y.bmc.set(func(f *fakeBMC) { f.writeErr, f.drive.ejectErr = bmc.ErrProtocol, bmc.ErrProtocol })
		y.untilWrites("h")
		before := y.memory.bmcOf(y.get("h")).acks
		y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BootMethod = "" })
		y.clock.Step(10 * time.Minute)
		if got := y.untilWrites("h"); got != "eject /1" {
			t.Fatalf("got %q", got)
		}
		y.want("h", infrav1.HostBMCReachableCondition, metav1.ConditionFalse, infrav1.ReasonBMCError)
		if after := y.memory.bmcOf(y.get("h")).acks; after != before || after == (powerAcks{}) {
			t.Errorf("orders %+v, and before the ejection %+v", after, before)
		}
	})
	for name, tc := range map[string]struct {
		shown string
		told  bool
	}{
		"its image is not shown":       {"", true},
		"only a name is shown":         {"agent.iso", true},
		"it is a person's":             {"http://192.0.2.9/rescue.iso", false},
		"it is a person's, on a share": {"//192.0.2.9/iso/rescue.iso", false},
	} {
		t.Run("a drive that is not empty, "+name, func(t *testing.T) {
			y := newBootFixture(t, on, byMedia)
			y.untilWrites("h")
			y.bmc.set(func(f *fakeBMC) { f.power, f.drive.shown = bmc.PowerOn, &tc.shown })
			y.edit("h", func(h *infrav1.IngotHost) { h.Spec.Order.AgentKey = strings.Repeat("a", 64) })
			y.until("h", "let be", func(*infrav1.IngotHost) bool { return !y.noted("h") })
			if got := y.bmc.took(); got != "" {
				t.Errorf("an image that may be a person's: %s", got)
			}
			if tc.told {
				y.recordedOnce(infrav1.ReasonVirtualMediaEjectFailed)
			}
		})
	}
}

// testRejectedOverride: a host whose BMC rejects the boot override stays off, shows why, and boots
// once the BMC accepts it.
func testRejectedOverride(t *testing.T, on *testEnv, method func(*infrav1.IngotHost), want string) {
	for name, tc := range map[string]struct {
		err    error
		reason string
	}{
		"it knows none":          {bmc.ErrNotSupported, infrav1.ReasonBMCUnsupported},
		"it forgets it":          {bmc.ErrNotApplied, infrav1.ReasonBMCError},
		"its answer is lost too": {fmt.Errorf("patch: %w", bmc.ErrUnknownOutcome), infrav1.ReasonBMCError},
	} {
		t.Run(name, func(t *testing.T) {
			y := newBootFixture(t, on, method)
			y.bmc.set(func(f *fakeBMC) { f.overrideErr, f.override = tc.err, bmc.BootOverride{Target: bmc.BootNone} })
			for range 3 {
				if got := y.untilWrites("h"); got != want {
					t.Fatalf("got %q, want %q", got, want)
				}
				y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, tc.reason)
				y.clock.Step(10 * time.Minute)
			}
			y.bmc.set(func(f *fakeBMC) { f.overrideErr = nil })
			if got := y.untilWrites("h"); !strings.HasSuffix(got, ", On") {
				t.Errorf("once the BMC takes it: %q", got)
			}
		})
	}
}

func testHTTPBoot(t *testing.T, on *testEnv) {
	byHTTP := func(h *infrav1.IngotHost) { h.Spec.BootMethod = infrav1.BootMethodHTTP }
	t.Run("an override that the BMC keeps for every boot", func(t *testing.T) {
		y := newBootFixture(t, on, byHTTP)
		y.bmc.set(func(f *fakeBMC) { f.overrideErr = fmt.Errorf("set boot override: %w", bmc.ErrOverrideStays) })
		if got := y.untilWrites("h"); got != "boot HTTP UEFI, On" {
			t.Errorf("writes = %q", got)
		}
		y.recordedOnce(infrav1.ReasonBootOverrideNotApplied)
	})
	t.Run("an override that is refused", func(t *testing.T) {
		testRejectedOverride(t, on, byHTTP, "boot HTTP UEFI, boot HTTP UEFI")
	})
	secure := func(h *infrav1.IngotHost) {
		byHTTP(h)
		h.Spec.BootMode = infrav1.BootModeUEFISecureBoot
	}
	for name, tc := range map[string]struct {
		change func(*infrav1.IngotHost)
		bmc    func(*fakeBMC)
		want   string
		uris   []string
		told   string
	}{
		"the BMC takes the address": {byHTTP, nil, "boot HTTP UEFI, On", []string{"http://192.0.2.1:8880/boot/MAC/agent.efi"}, ""},
		"no URL in the override: DHCP sends it": {byHTTP, func(f *fakeBMC) { f.drive.noURI = true }, "boot HTTP UEFI, boot HTTP UEFI, On",
			[]string{"http://192.0.2.1:8880/boot/MAC/agent.efi", ""}, ""},
		"Secure Boot is on": {secure, func(f *fakeBMC) { f.drive.secureKnown, f.drive.secure = true, true }, "boot HTTP UEFI, On",
			[]string{"http://192.0.2.1:8880/boot/MAC/agent.efi"}, ""},
		"Secure Boot is switched on": {secure, func(f *fakeBMC) { f.drive.secureKnown = true }, "secure boot true, boot HTTP UEFI, On",
			[]string{"http://192.0.2.1:8880/boot/MAC/agent.efi"}, infrav1.ReasonSecureBootOff},
	} {
		t.Run(name, func(t *testing.T) {
			y := newBootFixture(t, on, tc.change)
			if tc.bmc != nil {
				y.bmc.set(tc.bmc)
			}
			if got := y.untilWrites("h"); got != tc.want {
				t.Errorf("booted by %q, want %q", got, tc.want)
			}
			mac := y.get("h").Spec.BootMACAddress
			for i := range tc.uris {
				tc.uris[i] = strings.Replace(tc.uris[i], "MAC", mac, 1)
			}
			if !slices.Equal(y.bmc.drive.uris, tc.uris) {
				t.Errorf("addresses %q, want %q", y.bmc.drive.uris, tc.uris)
			}
			if tc.told != "" {
				y.recordedOnce(tc.told)
			}
			if y.noted("h") {
				t.Error("a drive is remembered that nothing was put into")
			}
		})
	}
	for name, change := range map[string]func(*fakeBMC){
		"Secure Boot cannot be seen to, and nothing is booted": func(*fakeBMC) {},
		"Secure Boot is on, and enforces nothing": func(f *fakeBMC) {
			f.drive.secureKnown, f.drive.secure, f.drive.secureMode = true, true, "SetupMode"
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newBootFixture(t, on, secure)
			y.bmc.set(change)
			y.until("h", "shown", func(h *infrav1.IngotHost) bool {
				return conditions.GetReason(h, infrav1.ReadyCondition) == infrav1.ReasonBMCUnsupported
			})
			if got := y.bmc.took(); got != "" {
				t.Errorf("and yet %s", got)
			}
		})
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// I13: delays grow, are capped and jittered, and end with an answer or a corrected spec.
func TestBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	c := bmcState{key: "1/a", listed: true, macs: []string{"x"}}
	base := timing.Default().BMCBackoffFirst
	for i := range 12 {
		c = c.failed(lifecycle.BMCBusy, "busy", now, timing.Default())
		wait := c.retryAt.Sub(now)
		if wait < base || wait > min(base+base/2, timing.Default().BMCBackoffMax) {
			t.Errorf("failure %d: wait %s, want %s to %s", i+1, wait, base, min(base+base/2, timing.Default().BMCBackoffMax))
		}
		base = min(2*base, timing.Default().BMCBackoffMax)
	}
	if again := c.withKey("1/a"); again.delay != c.delay {
		t.Error("failures are forgotten without a correction")
	}
	if corrected := c.withKey("2/a"); corrected.delay != 0 || !corrected.retryAt.IsZero() || corrected.problem != lifecycle.BMCOK || !corrected.listed {
		t.Errorf("after a correction: %+v", corrected)
	}
	if fine := c.answered(); fine.delay != 0 || !fine.retryAt.IsZero() || fine.problem != lifecycle.BMCOK || !fine.listed {
		t.Errorf("after an answer: %+v", fine)
	}
}

func TestStable(t *testing.T) {
	for in, want := range map[string]string{
		"power state: read tcp 10.0.0.1:40312->10.0.0.9:443: connection reset": "power state: read tcp 10.0.0.9:443: connection reset",
		"read: BMC is busy: retry after 1m7s: BMC answered 503":                "read: BMC is busy: BMC answered 503",
		"plain text  with two blanks":                                          "plain text  with two blanks",
		"":                                                                     "",
	} {
		if got := stable(in); got != want {
			t.Errorf("stable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestMemoryEndsWithTheHost(t *testing.T) {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "h", UID: "1"}}
	var m hostMemory
	m.keepBMC(host, bmcState{listed: true})
	if !m.bmcOf(host).listed {
		t.Error("forgotten at once")
	}
	host.UID = "2"
	if m.bmcOf(host).listed {
		t.Error("another host of the same name inherits the contact")
	}
	m.forget(keyOf(host))
	if len(m.hosts) != 0 {
		t.Errorf("kept forever: %v", m.hosts)
	}
}

func TestProblemOf(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want lifecycle.BMCProblem
	}{
		{bmc.ErrUnauthorized, lifecycle.BMCUnauthorized},
		{bmc.ErrCertificate, lifecycle.BMCCertificateInvalid},
		{bmc.ErrUnreachable, lifecycle.BMCUnreachable},
		{bmc.ErrTimeout, lifecycle.BMCTimeout},
		{bmc.ErrUnknownOutcome, lifecycle.BMCTimeout},
		{context.DeadlineExceeded, lifecycle.BMCTimeout},
		{bmc.ErrBusy, lifecycle.BMCBusy},
		{fmt.Errorf("NICs: %w", bmc.ErrUnfinished), lifecycle.BMCSlow},
		{&bmc.BusyError{RateLimited: true}, lifecycle.BMCRateLimited},
		{bmc.ErrNotSupported, lifecycle.BMCUnsupported},
		{bmc.ErrAddress, lifecycle.BMCUnsupported},
		{bmc.ErrProtocol, lifecycle.BMCError},
		{errors.New("else"), lifecycle.BMCError},
	} {
		if got := problemOf(fmt.Errorf("power state: %w", tc.err)); got != tc.want {
			t.Errorf("problemOf(%v) = %s, want %s", tc.err, got, tc.want)
		}
	}
}

// The backoff of a BMC survives all changes by a machine, and ends when spec.bmc, credentials or CA
// change.
func TestAccessKey(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		change  func(*infrav1.IngotHost)
		version string
		again   bool
	}{
		"nothing":      {func(*infrav1.IngotHost) {}, "v", false},
		"a claim":      {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Claim = &infrav1.HostClaim{InstanceID: "i"} }, "v", false},
		"a record":     {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Record = &infrav1.HostRecord{} }, "v", false},
		"an order":     {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Order = &infrav1.HostOrder{} }, "v", false},
		"the address":  {func(h *infrav1.IngotHost) { h.Spec.BMC.Address += "0" }, "v", true},
		"the Secret":   {func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "other" }, "v", true},
		"the pin":      {func(h *infrav1.IngotHost) { h.Spec.BMC.CertificateFingerprint = "sha256:x" }, "v", true},
		"the CA":       {func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca"} }, "v", true},
		"no trust":     {func(h *infrav1.IngotHost) { h.Spec.BMC.InsecureSkipVerify = ptr.To(true) }, "v", true},
		"its contents": {func(*infrav1.IngotHost) {}, "w", true},
		"a person asks": {func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.RetryBMCAnnotation: commandAt(time.Unix(1000, 0))}
		}, "v", true},
		"what it is to": {func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff }, "v", false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Spec.BMC = &infrav1.BMC{Address: "redfish://b", CredentialsRef: infrav1.LocalReference{Name: "s"}}
			known := bmcState{}.withKey(accessKey(host, "v"))
			known = known.failed(lifecycle.BMCTimeout, "slow", now, timing.Default())
			tc.change(host)
			if after := known.withKey(accessKey(host, tc.version)); after.retryAt.IsZero() != tc.again {
				t.Errorf("tried again at %s, want at once: %t", after.retryAt, tc.again)
			}
		})
	}
}

// Off of a live system counts only after the BMC has reported it for the reset interval.
func TestLiveOff(t *testing.T) {
	const on, isOff, unknown = infrav1.PowerStateOn, infrav1.PowerStateOff, infrav1.PowerStateUnknown
	type reading struct {
		at     int // seconds
		power  infrav1.PowerState
		order  string // empty: none
		unsure bool
	}
	for name, readings := range map[string][]reading{
		"asked again at once":        {{0, isOff, "a", true}, {1, isOff, "a", true}, {29, isOff, "a", true}, {30, isOff, "a", false}},
		"on in between":              {{0, isOff, "a", true}, {20, on, "a", false}, {30, isOff, "a", true}, {60, isOff, "a", false}},
		"no answer in between":       {{0, isOff, "a", true}, {20, unknown, "a", false}, {25, "", "a", false}, {30, isOff, "a", false}},
		"of another order":           {{0, isOff, "a", true}, {30, isOff, "b", true}, {60, isOff, "b", false}},
		"without one in between":     {{0, isOff, "a", true}, {10, isOff, "", false}, {30, isOff, "a", true}},
		"a live system that is well": {{0, on, "a", false}, {30, on, "a", false}},
		"no live system":             {{0, isOff, "image", false}, {30, isOff, "image", false}},
	} {
		t.Run(name, func(t *testing.T) {
			var o liveOff
			for _, r := range readings {
				var order *infrav1.HostOrder
				if r.order != "" {
					order = &infrav1.HostOrder{ID: r.order}
				}
				if r.order == "a" || r.order == "b" {
					order.LiveStartTime = metav1.Unix(1, 0)
				}
				var unsure bool
				if o, unsure = o.seen(order, r.power, time.Unix(int64(1000+r.at), 0), 30*time.Second); unsure != r.unsure {
					t.Errorf("after %d s: unsure %t", r.at, unsure)
				}
			}
		})
	}
}

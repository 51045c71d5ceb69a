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

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// I13: delays grow, are capped and jittered, and end with an answer or a correction.
func TestContactBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	c := contact{key: "1/a", listed: true, macs: []string{"x"}}
	base := backoffFirst
	for i := range 12 {
		c = c.failed(lifecycle.BMCBusy, "busy", now, DefaultWaits())
		wait := c.retryAt.Sub(now)
		if wait < base || wait > min(base+base/2, backoffCap) {
			t.Errorf("failure %d: wait %s, want %s to %s", i+1, wait, base, min(base+base/2, backoffCap))
		}
		base = min(2*base, backoffCap)
	}
	if again := c.under("1/a"); again.delay != c.delay {
		t.Error("failures are forgotten without a correction")
	}
	if corrected := c.under("2/a"); corrected.delay != 0 || !corrected.retryAt.IsZero() || corrected.problem != lifecycle.BMCOK || !corrected.listed {
		t.Errorf("after a correction: %+v", corrected)
	}
	if fine := c.answered(); fine.delay != 0 || !fine.retryAt.IsZero() || fine.problem != lifecycle.BMCOK || !fine.listed {
		t.Errorf("after an answer: %+v", fine)
	}
}

func TestStable(t *testing.T) {
	for in, want := range map[string]string{
		"power state: read tcp 10.0.0.1:40312->10.0.0.9:443: connection reset": "power state: read tcp 10.0.0.9:443: connection reset",
		"read: BMC is busy: asks to wait 1m7s: BMC answered 503":               "read: BMC is busy: BMC answered 503",
		"plain text  with two blanks":                                          "plain text  with two blanks",
		"":                                                                     "",
	} {
		if got := stable(in); got != want {
			t.Errorf("stable(%q) = %q, want %q", in, got, want)
		}
	}
}

// What is remembered ends with the host, and is not taken for another of its name.
func TestContactsForget(t *testing.T) {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "h", UID: "1"}}
	var c contacts
	c.keep(host, contact{uid: "1", listed: true})
	if !c.of(host).listed {
		t.Error("forgotten at once")
	}
	host.UID = "2"
	if c.of(host).listed {
		t.Error("another host of the same name inherits the contact")
	}
	c.forget(keyOf(host))
	if len(c.m) != 0 {
		t.Errorf("kept for ever: %v", c.m)
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

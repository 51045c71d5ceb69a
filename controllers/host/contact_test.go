// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// I13: delays grow, are capped and jittered, and end with an answer or a correction.
func TestContactBackoff(t *testing.T) {
	now := time.Unix(1000, 0)
	c := contact{key: "1/a", listed: true, macs: []string{"x"}}
	base := backoffFirst
	for i := range 12 {
		c = c.failed(inventory.BMCBusy, "busy", now, DefaultWaits())
		wait := c.retryAt.Sub(now)
		if wait < base || wait > min(base+base/2, backoffCap) {
			t.Errorf("failure %d: wait %s, want %s to %s", i+1, wait, base, min(base+base/2, backoffCap))
		}
		base = min(2*base, backoffCap)
	}
	if again := c.under("1/a"); again.delay != c.delay {
		t.Error("failures are forgotten without a correction")
	}
	if corrected := c.under("2/a"); corrected.delay != 0 || !corrected.retryAt.IsZero() || corrected.problem != inventory.BMCOK || !corrected.listed {
		t.Errorf("after a correction: %+v", corrected)
	}
	if fine := c.answered(); fine.delay != 0 || !fine.retryAt.IsZero() || fine.problem != inventory.BMCOK || !fine.listed {
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
		want inventory.BMCProblem
	}{
		{bmc.ErrUnauthorized, inventory.BMCUnauthorized},
		{bmc.ErrCertificate, inventory.BMCCertificateInvalid},
		{bmc.ErrUnreachable, inventory.BMCUnreachable},
		{bmc.ErrTimeout, inventory.BMCTimeout},
		{bmc.ErrUnknownOutcome, inventory.BMCTimeout},
		{context.DeadlineExceeded, inventory.BMCTimeout},
		{bmc.ErrBusy, inventory.BMCBusy},
		{&bmc.BusyError{RateLimited: true}, inventory.BMCRateLimited},
		{bmc.ErrNotSupported, inventory.BMCUnsupported},
		{bmc.ErrAddress, inventory.BMCUnsupported},
		{bmc.ErrProtocol, inventory.BMCError},
		{errors.New("else"), inventory.BMCError},
	} {
		if got := problemOf(fmt.Errorf("power state: %w", tc.err)); got != tc.want {
			t.Errorf("problemOf(%v) = %s, want %s", tc.err, got, tc.want)
		}
	}
}

func TestAllocator(t *testing.T) {
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.11"}}}
	record := func(ip, mac string) infrav1.IngotHardware {
		return infrav1.IngotHardware{Spec: infrav1.IngotHardwareSpec{Address: &infrav1.RecordedAddress{NetworkName: "net", IP: ip, MAC: mac}}}
	}
	now := time.Unix(1000, 0)
	var a allocator
	take := func(mac string, after time.Duration, recorded ...infrav1.IngotHardware) (netip.Addr, error) {
		return a.take(network, mac, recorded, now.Add(after))
	}
	first, err := take("m1", 0)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := take("m1", time.Second); err != nil || again != first {
		t.Errorf("asked again before the cache shows it: %s, %v; want %s", again, err, first)
	}
	second, err := take("m2", time.Second)
	if err != nil || second == first {
		t.Errorf("the second host gets %s, %v", second, err)
	}
	if _, err := take("m3", 2*time.Second); !errors.Is(err, inventory.ErrAddressesExhausted) {
		t.Errorf("a third address of two: %v", err)
	}
	// One is recorded, the other never was: its host is gone.
	if third, err := take("m3", givenMemory+3*time.Second, record(first.String(), "m1")); err != nil || third != second {
		t.Errorf("an address that nobody holds is not given again: %s, %v; want %s", third, err, second)
	}
	if _, err := take("m4", 3*givenMemory, record(first.String(), "m1"), record(second.String(), "m3")); !errors.Is(err, inventory.ErrAddressesExhausted) {
		t.Errorf("recorded addresses are given again: %v", err)
	}
	network.Spec.Range.End = "x"
	if _, err := take("m5", 5*givenMemory); !errors.Is(err, inventory.ErrNetworkInvalid) {
		t.Errorf("a network that is wrong: %v", err)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

func TestPendingAddresses(t *testing.T) {
	network := &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.11"}}}
	now := time.Unix(1000, 0)
	var a pendingAddresses
	take := func(mac string, after time.Duration, recorded ...netip.Addr) (netip.Addr, error) {
		taken := map[netip.Addr]bool{}
		for _, address := range recorded {
			taken[address] = true
		}
		return a.take(network.Name, mac, taken, now.Add(after), func(taken map[netip.Addr]bool) (netip.Addr, error) {
			return inventory.AllocateAddress(network.Spec, taken, mac)
		})
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
	if third, err := take("m3", pendingTime+3*time.Second, first); err != nil || third != second {
		t.Errorf("an address that nobody holds is not given again: %s, %v; want %s", third, err, second)
	}
	if _, err := take("m4", 3*pendingTime, first, second); !errors.Is(err, inventory.ErrAddressesExhausted) {
		t.Errorf("recorded addresses are given again: %v", err)
	}
	network.Spec.Range.End = "x"
	if _, err := take("m5", 5*pendingTime); !errors.Is(err, inventory.ErrNetworkInvalid) {
		t.Errorf("a network that is wrong: %v", err)
	}
}

// TestReserve: the pools of two namespaces give one address at the same time, and
// one host alone gets it.
func TestReserve(t *testing.T) {
	var a pendingAddresses
	now := time.Unix(0, 0)
	address := netip.MustParseAddr("198.51.100.20")
	for i, step := range []struct {
		network, mac string
		after        time.Duration
		want         bool
	}{
		{"a", "52:54:00:00:00:01", 0, true},
		{"a", "52:54:00:00:00:02", 0, false},
		{"a", "52:54:00:00:00:01", 0, true}, // it asks again
		{"b", "52:54:00:00:00:02", 0, true},
		{"a", "52:54:00:00:00:02", pendingTime, true},
		{"a", "52:54:00:00:00:01", 0, false},
	} {
		now = now.Add(step.after)
		if got := a.reserve(step.network, step.mac, address, now); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
}

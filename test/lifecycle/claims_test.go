// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/test/needs"
)

const (
	claimMachines   = 50
	claimSeeds      = 10
	shortClaimSeeds = 1
	// claimDelay is the most by which each manager's caches are late.
	claimDelay = 2 * time.Second
)

// testClaims: two managers at once, without a leader, each with caches that are
// late by a random time, and as many machines as there are hosts (I1).
func testClaims(t *testing.T, plane *Plane) {
	seeds := shortClaimSeeds
	if needs.IsFull() {
		seeds = claimSeeds
	}
	for seed := range seeds {
		t.Run(fmt.Sprintf("seed-%d", seed), func(t *testing.T) { claimAll(t, plane, uint64(seed)) })
	}
}

// benches are BMCs with nothing behind them: a claim needs a host that is off, not
// one that boots.
type benches struct {
	authority *labbmc.Authority
	bmcs      []*labbmc.BMC
}

const benchPassword = "password"

func benchMAC(i int) string { return fmt.Sprintf("52:54:00:1b:00:%02x", i) }

func newBenches(t *testing.T) *benches {
	t.Helper()
	authority, err := labbmc.NewAuthority()
	check(t, err)
	b := &benches{authority: authority}
	for i := range claimMachines {
		one, err := labbmc.Start(labbmc.Config{
			Authority: authority, Machine: &labbmc.Bench{}, Username: datacenter.Username, Password: benchPassword,
			System: labbmc.System{UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Serial: fmt.Sprint("bench-", i), MACs: []string{benchMAC(i)}},
		})
		check(t, err)
		t.Cleanup(func() { _ = one.Close() })
		b.bmcs = append(b.bmcs, one)
	}
	return b
}

// claimAll is one seed.
func claimAll(t *testing.T, plane *Plane, seed uint64) {
	benches := newBenches(t)
	site := plane.NewSite(t, SiteOptions{Password: benchPassword})
	count := &conflicts{}
	options := ManagerOptions{Witness: count, Delay: claimDelay, Args: []string{
		"--leader-elect=false", "--roles=controllers",
		// No agent answers here; a slow machine must not find hosts in quarantine
		// before the last machine has got one.
		"--agent-deadline=15m",
	}}
	for i, last := range []string{"2/24", "3/24"} {
		o := options
		o.Name, o.Address, o.NoWebhooks, o.Seed = fmt.Sprint("manager-", i), site.subnet(last), i > 0, 2*seed+uint64(i)
		site.StartManager(t, o)
	}
	site.CreateCluster(t)
	site.credentials(t, "bench", benches.authority.PEM())
	var names []string
	for i, one := range benches.bmcs {
		name := fmt.Sprintf("bench-%02d", i)
		names = append(names, name)
		site.restore(t, name, one.Address(), benchMAC(i))
	}
	site.Await(t, "hosts available", site.Free(names...))
	for _, name := range names {
		site.Claim(t, name, nil)
	}
	site.Await(t, "all machines have a host", site.claimed(len(names)))
	site.History.Settle(t)
	versions := site.History.Versions(t)
	claims, wrong := CheckClaims(site.Namespace, versions)
	for _, text := range append(wrong, site.pairs(t, len(names))...) {
		t.Error(text)
	}
	refused, cleared := count.counts()
	if claims < claimMachines || refused+cleared == 0 {
		t.Errorf("%d claims, %d conflicts, %d choices taken back: nothing was put to the test", claims, refused, cleared)
	}
	t.Logf("seed %d: %d claims in %d versions, %d conflicts (409), %d choices taken back, %d breaches", seed, claims, len(versions), refused, cleared, len(wrong))
}

// restore makes a host that was inspected in an earlier life, as a restore of a
// backup does (the administrator of the lab has the verb).
func (s *Site) restore(t *testing.T, name, address, mac string) {
	t.Helper()
	host := s.hostObject(name, address, mac, "bench"+secretSuffix, "bench"+bundleSuffix)
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()}
	s.create(t, host)
	s.create(t, &infrav1.IngotHardware{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: infrav1.IngotHardwareSpec{
			Architecture: "amd64", MemoryBytes: 8 << 30,
			NICs:  []infrav1.HardwareNIC{{MAC: mac, Name: "eth0"}},
			Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](100_000_000_000)}},
		},
	})
}

// claimed says whether all machines have a host, by their own word.
func (s *Site) claimed(want int) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		machines := &infrav1.IngotMachineList{}
		if err := s.Client.List(ctx, machines, client.InNamespace(s.Namespace)); err != nil {
			return "", err
		}
		have := 0
		for i := range machines.Items {
			if conditions.IsTrue(&machines.Items[i], infrav1.MachineHostClaimedCondition) {
				have++
			}
		}
		if have == want {
			return "", nil
		}
		return fmt.Sprintf("%d of %d machines have a host", have, want), nil
	}
}

// pairs compares claims and choices as they are in the end: each machine has one
// host, each host one machine, and both say the same.
func (s *Site) pairs(t *testing.T, want int) (wrong []string) {
	t.Helper()
	hosts, machines := &infrav1.IngotHostList{}, &infrav1.IngotMachineList{}
	check(t, errors.Join(
		s.Client.List(t.Context(), hosts, client.InNamespace(s.Namespace)),
		s.Client.List(t.Context(), machines, client.InNamespace(s.Namespace))))
	chosen := map[string]string{} // by providerID
	for i := range machines.Items {
		machine := &machines.Items[i]
		if other, taken := chosen[machine.Spec.ProviderID]; taken || machine.Spec.ProviderID == "" {
			wrong = append(wrong, fmt.Sprintf("machines %s and %q both say %q", machine.Name, other, machine.Spec.ProviderID))
		}
		chosen[machine.Spec.ProviderID] = machine.Name
	}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		claim := ptr.Deref(host.Spec.Claim, infrav1.HostClaim{})
		id := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}.String()
		if claim.MachineRef.Name == "" || chosen[id] != claim.MachineRef.Name {
			wrong = append(wrong, fmt.Sprintf("host %s is claimed by %q as %s; the machine of that name is %q", host.Name, claim.MachineRef.Name, id, chosen[id]))
		}
		delete(chosen, id)
	}
	if len(hosts.Items) != want || len(chosen) != 0 {
		wrong = append(wrong, fmt.Sprintf("%d hosts, %d wanted; machines without one: %v", len(hosts.Items), want, chosen))
	}
	return wrong
}

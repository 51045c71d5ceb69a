// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package allocation

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// said is what texts are changed to: all that means something to whoever looks.
var said = []string{"", "c1", "c2", "r1", "r2", "Off", "Full", "Provisioned", "Releasing", "VirtualMedia",
	"redfish://bmc", "net", "amd64", "arm64", "52:54:00:00:00:01", "52:54:00:00:00:02", "10.10.0.20", "2001:db8::20"}

// mutate changes a value in every way, one at a time, and calls try with each; the value is
// as before afterwards. What is not there is made, and changed in turn, under its own name.
func mutate(v reflect.Value, path string, try func(path string)) {
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	put := func(x any) { v.Set(reflect.ValueOf(x).Convert(v.Type())); try(path); v.Set(was) }
	if v.Type() == reflect.TypeFor[metav1.Time]() {
		put(metav1.Time{})
		put(metav1.Unix(7, 0))
		return
	}
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		for _, size := range []string{"0", "1G", "1Pi"} {
			put(resource.MustParse(size))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		for _, text := range said {
			put(text)
		}
	case reflect.Bool:
		put(!v.Bool())
	case reflect.Int32, reflect.Int64:
		put(0)
		put(1)
		put(1 << 30)
	case reflect.Pointer:
		made := reflect.New(v.Type().Elem())
		if v.IsNil() {
			try = as(path, try)
		} else {
			made.Elem().Set(was.Elem()) // a copy is changed
		}
		v.Set(made)
		try(path)
		mutate(made.Elem(), path, try)
		v.SetZero()
		try(path)
		v.Set(was)
	case reflect.Slice:
		if was.Len() == 0 {
			try = as(path, try)
		}
		v.Set(reflect.MakeSlice(v.Type(), max(was.Len(), 1), max(was.Len(), 1)))
		reflect.Copy(v, was)
		try(path)
		mutate(v.Index(0), path, try)
		v.SetZero()
		try(path)
		v.Set(was)
	case reflect.Map:
		for _, changed := range changedMaps(was.Interface().(map[string]string)) {
			put(changed)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			mutate(v.Field(i), strings.TrimPrefix(path+"."+name, "."), try)
		}
	default:
		panic(fmt.Sprintf("%s: a %s cannot be changed yet", path, v.Type()))
	}
}

// changedMaps are labels or annotations with one that is new, other, or gone.
func changedMaps(was map[string]string) []map[string]string {
	var out []map[string]string
	for _, key := range append(slices.Collect(maps.Keys(was)), "no-control-plane", infrav1.InspectAnnotation) {
		for _, text := range []string{"", "r1", "r2", "2026-01-02T15:04:05Z"} {
			changed := map[string]string{}
			maps.Copy(changed, was)
			changed[key] = text
			out = append(out, changed)
		}
		changed := maps.Clone(was)
		delete(changed, key)
		out = append(out, changed)
	}
	return out
}

// as tries under the name of what was made.
func as(path string, try func(path string)) func(string) { return func(string) { try(path) } }

// views are who looks at hosts: clusters that ask for this and that, and promises.
func views() []DomainRequest {
	networks := map[string]infrav1.IngotNetworkSpec{"net": {Subnet: "10.10.0.0/24", IPv6: &infrav1.NetworkIPv6{Subnet: "2001:db8::/64"}}}
	newest := func(change func(*infrav1.IngotMachineSpec)) []*infrav1.IngotMachine {
		m := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "cp"}}
		change(&m.Spec)
		return []*infrav1.IngotMachine{m}
	}
	address := func(source infrav1.AddressSource) func(*infrav1.IngotMachineSpec) {
		return func(s *infrav1.IngotMachineSpec) {
			s.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0",
				NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly}, LinkConfig: infrav1.LinkConfig{Addresses: []infrav1.LinkAddress{{Source: source}}}}}}
		}
	}
	promises := Outstanding(Snapshot{Reservations: []infrav1.IngotReservation{reservation("c2", workers("md", 1, "r1"))}, Now: promisedAt}, HoldsHost)
	cluster := func(trust infrav1.BootTrust) *infrav1.IngotCluster {
		c := request(func(*SelectionRequest) {}).Cluster
		c.Spec.BootTrust = trust
		c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "compute"}}
		c.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "no-control-plane", Operator: metav1.LabelSelectorOpDoesNotExist}}}
		return c
	}
	large := func(s *infrav1.IngotMachineSpec) {
		s.HostSelector = &infrav1.HostSelector{Architecture: "amd64", Minimum: &infrav1.HardwareMinimum{Cores: new(int32(16)), Memory: new(resource.MustParse("64Gi")), Disk: new(resource.MustParse("400G"))}}
	}
	return []DomainRequest{
		{Cluster: cluster(""), ClusterName: "c1"},
		{Cluster: cluster(""), ClusterName: "c2"},
		{Cluster: cluster(""), ClusterName: "c1", ControlPlane: newest(large)},
		{Cluster: cluster(infrav1.BootTrustVerified), ClusterName: "c1", ControlPlane: newest(func(*infrav1.IngotMachineSpec) {})},
		{Cluster: cluster(""), ClusterName: "c1", ControlPlane: newest(address(infrav1.AddressRecorded)), Networks: networks},
		{Cluster: cluster(""), ClusterName: "c1", ControlPlane: newest(address(infrav1.AddressRecordedIPv6)), Networks: networks},
		{Cluster: cluster(""), ClusterName: "c1", Reservations: promises},
	}
}

// seen is all that is made of a host: failure domains, and who has which address.
func seen(t *testing.T, views []DomainRequest, c Candidate) string {
	t.Helper()
	var b strings.Builder
	beside := candidate("beside", "r1")
	beside.Host.Spec.Claim = claimOf(infrav1.ClaimProvisioned)
	for _, view := range views {
		domains, err := FailureDomains([]Candidate{c, beside}, view)
		if err != nil {
			t.Fatal(err)
		}
		for _, domain := range domains {
			fmt.Fprint(&b, domain.Name, *domain.ControlPlane, " ")
		}
		b.WriteByte('\n')
	}
	held := addressuse.Owners{}
	held.Claimed(c.Host)
	held.Recorded(c.Hardware)
	fmt.Fprint(&b, held)
	return b.String()
}

// standing are hosts at the turns of their life.
func standing() map[string]Candidate {
	base := func(change func(*infrav1.IngotHostSpec)) Candidate {
		c := candidate("h", "r1")
		c.Hardware.Namespace, c.Hardware.Name = c.Host.Namespace, c.Host.Name
		c.Host.Spec.BootMethod = infrav1.BootMethodVirtualMedia
		c.Hardware.Spec.NICs = []infrav1.HardwareNIC{{MAC: c.Host.Spec.BootMACAddress, Name: "eth0"}}
		c.Hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: c.Host.Spec.BootMACAddress, IP: "10.10.0.10"}
		c.Hardware.Spec.IPv6Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: c.Host.Spec.BootMACAddress, IP: "2001:db8::10"}
		change(&c.Host.Spec)
		return c
	}
	claimed := func(state infrav1.ClaimState) func(*infrav1.IngotHostSpec) {
		return func(s *infrav1.IngotHostSpec) {
			s.Claim = claimOf(state)
			s.Claim.FailureDomain, s.Claim.Network = "r2", &infrav1.ClaimedNetwork{Addresses: []string{"10.10.0.11"}}
		}
	}
	return map[string]Candidate{
		"free":        base(func(*infrav1.IngotHostSpec) {}),
		"ordered":     base(func(s *infrav1.IngotHostSpec) { s.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect} }),
		"provisioned": base(claimed(infrav1.ClaimProvisioned)),
		"releasing":   base(claimed(infrav1.ClaimReleasing)),
		"quarantined": base(func(s *infrav1.IngotHostSpec) {
			s.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineNotFenced, Addresses: []string{"10.10.0.12"}}
		}),
	}
}

// Only changes of the ledger that change its results change the availability.
func TestSameAvailability(t *testing.T) {
	looking := views()
	counts, wakes := map[string]bool{}, map[string]bool{}
	for name, c := range standing() {
		was, before := seen(t, looking, c), Candidate{Host: c.Host.DeepCopy(), Hardware: c.Hardware.DeepCopy()}
		try := func(path string) {
			same := SameAvailability(before.Host, c.Host) && SameFacts(before.Hardware, c.Hardware)
			wakes[path] = wakes[path] || !same
			if !same && counts[path] {
				return
			}
			is := seen(t, looking, c)
			if same && is != was {
				t.Errorf("%s, %s: said to be the same availability, but\n%s", name, path, cmp.Diff(was, is))
			}
			counts[path] = counts[path] || is != was
		}
		mutate(reflect.ValueOf(&c.Host.Spec).Elem(), "host", try)
		mutate(reflect.ValueOf(&c.Host.Labels).Elem(), "host.Labels", try)
		mutate(reflect.ValueOf(&c.Host.Annotations).Elem(), "host.Annotations", try)
		mutate(reflect.ValueOf(&c.Host.DeletionTimestamp).Elem(), "host.DeletionTimestamp", try)
		mutate(reflect.ValueOf(&c.Hardware.Spec).Elem(), "hardware", try)
		c.Host.Status = infrav1.IngotHostStatus{}
		try("host.Status")
		if diff := cmp.Diff(before.Host.Spec, c.Host.Spec, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s is not as it was (-want +got):\n%s", name, diff)
		}
	}
	// A test that changes nothing proves nothing: these are the fields that count.
	want := []string{
		"hardware.Address", "hardware.Address.IP", "hardware.Address.MAC", "hardware.Address.NetworkName", "hardware.Architecture",
		"hardware.CPU.Cores", "hardware.Disks", "hardware.Disks.SerialNumber", "hardware.Disks.SizeBytes", "hardware.IPv6Address",
		"hardware.IPv6Address.IP", "hardware.IPv6Address.MAC", "hardware.IPv6Address.NetworkName", "hardware.MemoryBytes", "hardware.NICs",
		"hardware.NICs.MAC", "host.Annotations", "host.BIOS", "host.BMC", "host.BMC.Address", "host.BMC.InsecureSkipVerify",
		"host.BMC.TrustOnFirstUse", "host.BootMACAddress", "host.BootMethod", "host.Claim", "host.Claim.ClusterName", "host.Claim.FailureDomain",
		"host.Claim.FencedTime", "host.Claim.Network", "host.Claim.Network.Addresses", "host.Claim.Quarantine", "host.Claim.State", "host.DeletionTimestamp",
		"host.Firmware", "host.Labels", "host.Maintenance", "host.NetworkRef.Name", "host.Order", "host.Power", "host.Record",
		"host.Record.CleaningDue", "host.Record.InspectedTime", "host.Record.LastClusterName", "host.Record.Preparation", "host.Record.Quarantine",
		"host.Record.Quarantine.Addresses", "host.RootDeviceHints",
	}
	if diff := cmp.Diff(want, those(counts)); diff != "" {
		t.Errorf("what counts (-want +got):\n%s", diff)
	}
	for _, path := range those(wakes) {
		ledger := strings.HasPrefix(path, "host.Claim") || strings.HasPrefix(path, "host.Record") || strings.HasPrefix(path, "host.Order")
		if ledger && !counts[path] {
			t.Errorf("%s of the ledger is taken for another availability, and is nothing to anybody", path)
		}
	}
}

// those are the names that something holds of.
func those(of map[string]bool) []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, holds := range of {
			if holds && !yield(name) {
				return
			}
		}
	})
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// values collects what an object is indexed by.
type values struct {
	object client.Object
	found  map[string][]string
}

func (v values) IndexField(_ context.Context, object client.Object, field string, f client.IndexerFunc) error {
	if _, wrong := object.(*infrav1.IngotHost); wrong {
		if got := f(&infrav1.IngotCluster{}); got != nil {
			v.found["of a wrong kind"] = got
		}
	}
	if got := f(v.object); got != nil {
		v.found[field] = got
	}
	return nil
}

func TestValues(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "n", Name: "h"}
	full := infrav1.IngotHostSpec{
		BootMACAddress: "52:54:00:00:00:01", NetworkRef: infrav1.NetworkReference{Name: "net"},
		BMC: &infrav1.BMC{Address: "redfish://BMC-1.example:443/redfish/v1/Systems/1", CredentialsRef: infrav1.LocalReference{Name: "s"},
			CABundleRef: &infrav1.CABundleReference{Name: "ca"}},
		Claim: &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, Image: infrav1.Image{Checksum: "sha256:1"}},
	}
	for name, tc := range map[string]struct {
		object client.Object
		want   map[string][]string
	}{
		"host": {&infrav1.IngotHost{ObjectMeta: meta, Spec: full}, map[string][]string{
			index.HostByMAC: {"52:54:00:00:00:01"}, index.HostByBMC: {"bmc-1.example"}, index.HostByNetwork: {"net"},
			index.HostByCredentials: {"n/s"}, index.HostByCABundle: {"n/ca"}, index.HostByMachine: {"n/m"}, index.HostByImage: {"sha256:1"},
		}},
		"host of a live system": {&infrav1.IngotHost{ObjectMeta: meta, Spec: infrav1.IngotHostSpec{Claim: &infrav1.HostClaim{
			Live: &infrav1.LiveSystem{Kernel: infrav1.LiveFile{Checksum: "sha256:2"}, Initrd: infrav1.LiveFile{Checksum: "sha256:1"}}}}},
			map[string][]string{index.HostByMachine: {"n/"}, index.HostByImage: {"sha256:1", "sha256:2"}}},
		"host whose system was given addresses": {&infrav1.IngotHost{ObjectMeta: meta, Spec: infrav1.IngotHostSpec{Claim: &infrav1.HostClaim{
			Network: &infrav1.ClaimedNetwork{Addresses: []string{"192.0.2.7", "2001:DB8:0::7", "2001:db8::7", "none"}}}}},
			map[string][]string{index.HostByMachine: {"n/"}, index.HostByClaimAddress: {"192.0.2.7", "2001:db8::7"}, index.HostWithClaimAddress: {index.Any}}},
		"addresses of both kinds": {&infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{
			Address: &infrav1.RecordedAddress{NetworkName: "net", IP: "192.0.2.7"}, IPv6Address: &infrav1.RecordedAddress{NetworkName: "net", IP: "2001:DB8::7"}}},
			map[string][]string{index.HardwareByNetwork: {"net"}, index.HardwareByIPv6Network: {"net"}, index.HardwareByIP: {"net/192.0.2.7"},
				index.HardwareByAddress: {"192.0.2.7", "2001:db8::7"}}},
		"host that waits for approval": {&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", Labels: map[string]string{infrav1.EnrolledLabel: ""}},
			Spec: infrav1.IngotHostSpec{NetworkRef: infrav1.NetworkReference{Name: "net"}}},
			map[string][]string{index.HostByNetwork: {"net"}, index.HostByEnrollment: {"net"}}},
		"NICs and address": {&infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{
			NICs: []infrav1.HardwareNIC{{MAC: "52:54:00:00:00:01"}, {MAC: "52:54:00:00:00:02"}}, Address: &infrav1.RecordedAddress{NetworkName: "net", IP: "192.0.2.7"}}},
			map[string][]string{index.HardwareByNIC: {"52:54:00:00:00:01", "52:54:00:00:00:02"}, index.HardwareByNetwork: {"net"}, index.HardwareByIP: {"net/192.0.2.7"}, index.HardwareByAddress: {"192.0.2.7"}}},
		"CA in a Secret": {&infrav1.IngotHost{ObjectMeta: meta, Spec: infrav1.IngotHostSpec{BMC: &infrav1.BMC{
			CABundleRef: &infrav1.CABundleReference{Name: "ca", Kind: infrav1.CABundleSecret}}}},
			map[string][]string{index.HostByCASecret: {"n/ca"}}},
		"empty host":                     {&infrav1.IngotHost{ObjectMeta: meta}, nil},
		"address that admission refuses": {&infrav1.IngotHost{ObjectMeta: meta, Spec: infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: "idrac://x"}}}, nil},
		"hardware": {&infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{
			System: infrav1.HardwareSystem{UUID: "u", SerialNumber: "s"}, Address: &infrav1.RecordedAddress{NetworkName: "net"}, IPv6Address: &infrav1.RecordedAddress{NetworkName: "net6"}}},
			map[string][]string{index.HardwareBySystem: {"u/s"}, index.HardwareByNetwork: {"net"}, index.HardwareByIPv6Network: {"net6"}}},
		"hardware that tells too little": {&infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{System: infrav1.HardwareSystem{UUID: "u"}}}, nil},
		"hardware that tells what many do": {&infrav1.IngotHardware{ObjectMeta: meta, Spec: infrav1.IngotHardwareSpec{
			System: infrav1.HardwareSystem{UUID: "03000200-0400-0500-0006-000700080009", SerialNumber: "To be filled by O.E.M."}}}, nil},
		"endpoint": {&infrav1.IngotCluster{ObjectMeta: meta, Spec: infrav1.IngotClusterSpec{ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "2001:DB8::5"}}},
			map[string][]string{index.ClusterByEndpoint: {"2001:db8::5"}}},
		"endpoint by name": {&infrav1.IngotCluster{ObjectMeta: meta, Spec: infrav1.IngotClusterSpec{ControlPlaneEndpoint: infrav1.APIEndpoint{Host: "api.example.com"}}}, nil},
		"machine": {&infrav1.IngotMachine{ObjectMeta: meta, Spec: infrav1.IngotMachineSpec{ProviderID: "ingot://n/h/1"}},
			map[string][]string{index.MachineByHost: {"n/h"}}},
		"machine without a host": {&infrav1.IngotMachine{ObjectMeta: meta}, map[string][]string{index.MachineWithoutHost: {"n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := values{object: tc.object, found: map[string][]string{}}
			if err := index.Setup(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.found, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// I8: two spellings of one system are one; two systems of one BMC are two.
// A boot server watches what it may read: an index of machines would start a watch.
func TestSetupDirectory(t *testing.T) {
	kinds := kindsOf{}
	if err := index.SetupDirectory(t.Context(), kinds); err != nil {
		t.Fatal(err)
	}
	want := kindsOf{index.HostByMAC: "*v1beta2.IngotHost", index.HostByImage: "*v1beta2.IngotHost", index.HostByEnrollment: "*v1beta2.IngotHost",
		index.HostByClaimAddress: "*v1beta2.IngotHost", index.HardwareByNIC: "*v1beta2.IngotHardware", index.HardwareByIP: "*v1beta2.IngotHardware",
		index.ClusterByEndpoint: "*v1beta2.IngotCluster"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
}

// kindsOf collects what is indexed, by field.
type kindsOf map[string]string

func (k kindsOf) IndexField(_ context.Context, object client.Object, field string, _ client.IndexerFunc) error {
	k[field] = fmt.Sprintf("%T", object)
	return nil
}

func TestSameBMC(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"redfish://bmc", "redfish://BMC:443", true},
		{"redfish://bmc/redfish/v1/Systems/1", "redfish://bmc", true},
		{"redfish://bmc/redfish/v1/Systems/1", "redfish://bmc/redfish/v1/Systems/1/", true},
		{"redfish://bmc/redfish/v1/Systems/1", "redfish://bmc/redfish/v1/Systems/2", false},
		{"redfish://bmc", "redfish://bmc:8443", false},
		{"redfish://bmc/redfish/v1/Systems/1", "ipmi://BMC", true},
		{"bmc", "vendor+dell://bmc", true},
		{"redfish://127.0.0.1:8001", "127.0.0.1:8002", false},
		{"redfish://bmc", "", false},
		{"https://x", "https://x", false},
	} {
		host := func(address string) *infrav1.IngotHost {
			if address == "" {
				return &infrav1.IngotHost{}
			}
			return &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: address}}}
		}
		if got := index.SameBMC(host(tc.a), host(tc.b)); got != tc.want {
			t.Errorf("SameBMC(%q, %q) = %t", tc.a, tc.b, got)
		}
	}
}

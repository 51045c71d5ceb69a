// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// allowing returns a network that allows most hosts of namespace ns; nil means any number.
func allowing(name string, most *int32) *v1beta2.IngotNetwork {
	network := &v1beta2.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}}
	network.Spec.AllowedNamespaces = &v1beta2.NetworkNamespaces{Names: []string{"ns"}, MaxHosts: most}
	return network
}

// I22: in no state can a host join a network that does not allow it, or use a BMC address that is
// not allowed. A host that joins counts as the newest host.
func TestHostJoinsANetwork(t *testing.T) {
	refusing := allowing("others", nil)
	refusing.Spec.AllowedNamespaces.Names = []string{"another"}
	young := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "young", CreationTimestamp: metav1.NewTime(time.Unix(2000, 0))}}
	young.Spec.NetworkRef.Name, young.Spec.BootMACAddress = "full", "52:54:00:00:00:09"
	to := func(name string) func(*v1beta2.IngotHost) {
		return func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = name }
	}
	plain := func(*v1beta2.IngotHost) {}
	moved := func(h *v1beta2.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	dying := func(h *v1beta2.IngotHost) {
		h.DeletionTimestamp, h.Finalizers = new(metav1.Now()), []string{"example.com/kept"}
	}
	inspected := func(h *v1beta2.IngotHost) {
		h.Spec.Record = &v1beta2.HostRecord{InspectedTime: metav1.NewTime(time.Unix(1500, 0))}
	}
	loopback := func(h *v1beta2.IngotHost) { h.Spec.BMC = &v1beta2.BMC{Address: "redfish://127.0.0.1"} }
	for name, tt := range map[string]struct {
		before, change func(*v1beta2.IngotHost)
		want           string
	}{
		"allowed":                               {plain, to("wide"), ""},
		"not allowed":                           {plain, to("others"), "spec.networkRef.name"},
		"as if clusterctl took it away":         {moved, to("others"), "spec.networkRef.name"},
		"in the moment it is taken away":        {plain, func(h *v1beta2.IngotHost) { moved(h); to("others")(h) }, "spec.networkRef.name"},
		"kept by a finalizer":                   {dying, to("others"), "spec.networkRef.name"},
		"a full one, though it is older":        {plain, to("full"), "spec.networkRef.name"},
		"one that does not exist":               {plain, to("later"), ""},
		"one that does not exist, inspected":    {inspected, to("later"), "spec.networkRef.name"},
		"a BMC that is not allowed":             {plain, loopback, "spec.bmc.address"},
		"the same, taken away":                  {moved, loopback, "spec.bmc.address"},
		"the same, kept by a finalizer":         {dying, loopback, "spec.bmc.address"},
		"there before the rule, changed anyhow": {func(h *v1beta2.IngotHost) { to("others")(h); loopback(h) }, moved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", CreationTimestamp: metav1.NewTime(time.Unix(1000, 0))}}
			before.Spec.NetworkRef.Name, before.Spec.BootMACAddress = "mine", "52:54:00:00:00:01"
			tt.before(before)
			after := before.DeepCopy()
			tt.change(after)
			v := newHostValidator(t, "ingot", allowing("mine", nil), allowing("wide", nil), allowing("full", ptr.To[int32](1)), refusing, young)
			v.bmcs.Source = func(string) error { return errors.New("not allowed") }
			_, err := v.ValidateUpdate(request(t.Context(), "tenant"), before, after)
			checkRefusal(t, err, tt.want)
		})
	}
}

// During an installation that uses the recorded address, NIC and network are immutable.
func TestHostKeepsRecordedAddress(t *testing.T) {
	const boot = "52:54:00:00:00:01"
	for name, tc := range map[string]struct {
		state     v1beta2.ClaimState
		addresses []string
		recorded  *v1beta2.RecordedAddress
		change    func(*v1beta2.IngotHost)
		want      string
	}{
		"another network": {v1beta2.ClaimProvisioning, []string{"10.20.0.7", "10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, "spec.networkRef.name"},
		"another NIC": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.BootMACAddress = "52:54:00:00:00:02" }, "spec.bootMACAddress"},
		"the same": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Labels = map[string]string{"row": "1"} }, ""},
		"installed": {v1beta2.ClaimProvisioned, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"released": {v1beta2.ClaimReleasing, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"with addresses of a pool": {v1beta2.ClaimProvisioning, []string{"10.20.0.7"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"back to where it was recorded": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "other", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"nothing recorded": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, nil,
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, facts := claimed("h1"), &v1beta2.IngotHardware{}
			facts.Namespace, facts.Name, facts.Spec.Address = before.Namespace, before.Name, tc.recorded
			before.Spec.NetworkRef.Name = "net"
			before.Spec.Claim.State, before.Spec.Claim.Network = tc.state, &v1beta2.ClaimedNetwork{Addresses: tc.addresses}
			after := before.DeepCopy()
			tc.change(after)
			_, err := newHostValidator(t, "ingot", facts, allowing("other", nil)).ValidateUpdate(t.Context(), before, after)
			checkRefusal(t, err, tc.want)
		})
	}
}

// I22: a tenant cannot register an interface of another tenant's server.
func TestHostWithAnInterfaceOfOthers(t *testing.T) {
	const mac = "52:54:00:00:00:02"
	host := func(namespace string, change func(*v1beta2.IngotHost)) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}}
		h.Spec.BootMACAddress = "52:54:00:00:00:01"
		change(h)
		return h
	}
	free := func(h *v1beta2.IngotHost) {
		h.Spec.Record = &v1beta2.HostRecord{InspectedTime: metav1.NewTime(time.Unix(1500, 0))}
	}
	enrolled := func(h *v1beta2.IngotHost) { h.Labels = map[string]string{v1beta2.EnrolledLabel: ""} }
	moved := func(h *v1beta2.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	for name, tt := range map[string]struct {
		other   *v1beta2.IngotHost // nil: gone
		refused bool
	}{
		"of a free host":                       {host("other", free), true},
		"of a host in use, whatever it says":   {host("other", func(h *v1beta2.IngotHost) { h.Spec.Claim = &v1beta2.HostClaim{}; enrolled(h); moved(h) }), true},
		"of an approved host with the label":   {host("other", func(h *v1beta2.IngotHost) { free(h); enrolled(h) }), true},
		"of a machine that waits for approval": {host("other", enrolled), false},
		"of a host that is moved away":         {host("other", func(h *v1beta2.IngotHost) { free(h); moved(h) }), false},
		"of a host of its own namespace":       {host("ns", free), false},
		"of a host that is gone":               {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			facts := &v1beta2.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "theirs"}}
			facts.Spec.NICs = []v1beta2.HardwareNIC{{MAC: "52:54:00:00:00:01"}, {MAC: mac}}
			objects := []client.Object{facts, allowing("net", nil)}
			if tt.other != nil {
				facts.Namespace = tt.other.Namespace
				objects = append(objects, tt.other)
			}
			mine := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
			mine.Spec.NetworkRef.Name, mine.Spec.BootMACAddress = "net", "52:54:00:00:00:03"
			after := mine.DeepCopy()
			after.Spec.BootMACAddress = mac
			v, want := newHostValidator(t, "ingot", objects...), ""
			if tt.refused {
				want = "spec.bootMACAddress"
			}
			_, err := v.ValidateCreate(request(t.Context(), "tenant"), after)
			checkRefusal(t, err, want)
			_, err = v.ValidateUpdate(request(t.Context(), "tenant"), mine, after)
			checkRefusal(t, err, want)
		})
	}
}

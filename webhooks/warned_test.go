// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// A host causes warnings when it is created or a change introduces a problem, not on every write
// of the manager.
func TestHostWarnings(t *testing.T) {
	racked := func(name string, change func(*v1beta2.IngotHost)) *v1beta2.IngotHost {
		host := claimed(name)
		host.Labels = map[string]string{v1beta2.RackLabel: "1"}
		host.Spec.NetworkRef.Name = "rack-a"
		host.Spec.Cleaning, host.Spec.Claim.Network = v1beta2.CleaningMetadata, &v1beta2.ClaimedNetwork{}
		host.Spec.BMC = &v1beta2.BMC{Address: "redfish://10.0.0.1", CredentialsRef: v1beta2.LocalReference{Name: "bmc"}}
		if change != nil {
			change(host)
		}
		return host
	}
	bad := func(host *v1beta2.IngotHost) {
		host.Labels = nil
		host.Spec.Cleaning = v1beta2.CleaningNone
		host.Spec.BMC.CredentialsRef.Name = "nowhere"
		host.Spec.BMC.InsecureSkipVerify = new(true)
	}
	astray := func(host *v1beta2.IngotHost) {
		bad(host)
		host.Spec.NetworkRef.Name = "nowhere"
	}
	all := admission.Warnings{
		"metadata.labels[" + v1beta2.RackLabel + "]: is not set, but other hosts of namespace ns have the label; set it: the host is in no failure domain until then",
		"spec.bmc.insecureSkipVerify: true lets an attacker between Ingot and the BMC read the password; remove it, and set caBundleRef or certificateFingerprint",
		"spec.cleaning: with None the disks keep their data on release, and only the same cluster can use the host again; use Metadata to make it available to others",
		`spec.bmc.credentialsRef.name: Secret "nowhere" does not exist; create it with the keys username and password: Ingot does not contact the BMC until then`,
	}
	byDHCP := func(host *v1beta2.IngotHost) { host.Spec.Claim.Network = nil }
	otherCard := func(host *v1beta2.IngotHost) { host.Spec.BootMACAddress = "02:00:00:00:00:99" }
	firstUse := func(host *v1beta2.IngotHost) { host.Spec.BMC.TrustOnFirstUse = new(true) }
	firstUseAt := func(address string) string {
		return "spec.bmc.trustOnFirstUse: true trusts the server that answers first at redfish://" + address +
			"; compare the fingerprint in the IngotHardware with the BMC's own, or set certificateFingerprint instead"
	}
	neighbour := racked("other", func(h *v1beta2.IngotHost) {
		h.Spec.BootMACAddress, h.Spec.BMC = "52:54:00:00:00:99", nil
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "bmc"}}
	there := network("rack-a", "10.0.0.0/24", "10.0.0.1", "10.0.0.99", "")
	deleted := func(h *v1beta2.IngotHost) {
		bad(h)
		now := metav1.Now()
		h.DeletionTimestamp = &now
	}
	facts := &v1beta2.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}}
	facts.Spec.Disks = []v1beta2.HardwareDisk{{Name: "/dev/sda", SerialNumber: "S-1", SizeBytes: new(int64(500_000_000_000))}}
	hinting := func(h *v1beta2.IngotHost) { h.Spec.RootDeviceHints = &v1beta2.RootDeviceHints{SerialNumber: "S-9"} }
	at := func(address string) func(*v1beta2.IngotHost) {
		return func(h *v1beta2.IngotHost) { h.Spec.BMC.Address = address }
	}
	const byIPMI = "spec.bmc.address: ipmi://10.0.0.1 lets every client that reaches the BMC get a hash to guess the password from (CVE-2013-4786), and the BMC does not prove " +
		"its identity; use redfish:// if the BMC supports it, else an isolated network and a random password of at least 16 characters"
	tests := []struct {
		name          string
		before, after *v1beta2.IngotHost // before is nil: created
		want          admission.Warnings
	}{
		{"made well", nil, racked("h", nil), nil},
		{"made badly", nil, racked("h", astray), append(slices.Clone(all), `spec.networkRef.name: IngotNetwork "nowhere" does not exist; create it: Ingot does not boot the host until then`)},
		{"changed badly", racked("h", nil), racked("h", bad), all},
		{"made in clear", nil, racked("h", func(h *v1beta2.IngotHost) { h.Spec.BMC.Address = "redfish+http://10.0.0.1" }), admission.Warnings{
			"spec.bmc.address: redfish+http://10.0.0.1 sends the password and all commands unencrypted; use redfish://, except in a lab or behind a TLS proxy"}},
		{"made by IPMI", nil, racked("h", at("ipmi://10.0.0.1")), admission.Warnings{byIPMI}},
		{"by IPMI, and changed otherwise", racked("h", at("ipmi://10.0.0.1")), racked("h", func(h *v1beta2.IngotHost) {
			at("ipmi://10.0.0.1")(h)
			h.Finalizers = []string{"x"}
		}), nil},
		{"from Redfish to IPMI", racked("h", nil), racked("h", at("ipmi://10.0.0.1")), admission.Warnings{byIPMI}},
		{"from IPMI to Redfish", racked("h", at("ipmi://10.0.0.1")), racked("h", nil), nil},
		{"without a protocol", nil, racked("h", at("10.0.0.1")), admission.Warnings{"spec.bmc.address: 10.0.0.1 names no protocol: if Redfish does not answer, which an attacker " +
			"can cause, the password goes to IPMI without a certificate; add redfish:// or ipmi://, or set caBundleRef or certificateFingerprint"}},
		{"without a protocol, but with a certificate", nil, racked("h", func(h *v1beta2.IngotHost) {
			at("10.0.0.1")(h)
			h.Spec.BMC.CertificateFingerprint = "sha256:00"
		}), nil},
		{"without a protocol, then by IPMI", racked("h", at("10.0.0.1")), racked("h", at("ipmi://10.0.0.1")), admission.Warnings{byIPMI}},
		{"AMT", nil, racked("h", at("vendor+intelamt://10.0.0.1")), nil},
		{"AMT in clear", nil, racked("h", at("vendor+intelamt://10.0.0.1:16992")), admission.Warnings{"spec.bmc.address: vendor+intelamt://10.0.0.1:16992 sends all commands unencrypted; remove the port: AMT then uses TLS on port 16993"}},
		{"the CA of the cluster", racked("h", nil), racked("h", func(h *v1beta2.IngotHost) {
			h.Spec.BMC.CABundleRef = &v1beta2.CABundleReference{Name: "kube-root-ca.crt"}
		}), admission.Warnings{
			`spec.bmc.caBundleRef.name: "kube-root-ca.crt" is the CA of this cluster's API server, which rarely signs BMC certificates, and clusterctl move does not move it; name a ConfigMap with the CA of the BMCs`,
			`spec.bmc.caBundleRef.name: ConfigMap "kube-root-ca.crt" does not exist; create it with the key ca.crt: Ingot does not contact the BMC until then`}},
		{"bad, and changed otherwise", racked("h", bad), racked("h", func(h *v1beta2.IngotHost) { bad(h); h.Finalizers = []string{"x"} }), nil},
		{"bad, and mended", racked("h", bad), racked("h", nil), nil},
		{"changed badly while it is deleted", racked("h", nil), racked("h", deleted), nil},
		{"changed badly and moved away", racked("h", nil), racked("h", func(h *v1beta2.IngotHost) {
			bad(h)
			h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		}), nil},
		{"trusted on first use", racked("h", nil), racked("h", firstUse), admission.Warnings{firstUseAt("10.0.0.1")}},
		{"trusted on first use, and changed otherwise", racked("h", firstUse), racked("h", func(h *v1beta2.IngotHost) { firstUse(h); h.Finalizers = []string{"x"} }), nil},
		{"trusted on first use at another address", racked("h", firstUse), racked("h", func(h *v1beta2.IngotHost) {
			firstUse(h)
			h.Spec.BMC.Address = "redfish://10.0.0.2"
		}), admission.Warnings{firstUseAt("10.0.0.2")}},
		{"a CA in a Secret that is not there", racked("h", nil), racked("h", func(h *v1beta2.IngotHost) {
			h.Spec.BMC.CABundleRef = &v1beta2.CABundleReference{Name: "ca", Kind: v1beta2.CABundleSecret}
		}), admission.Warnings{`spec.bmc.caBundleRef.name: Secret "ca" does not exist; create it with the key ca.crt: Ingot does not contact the BMC until then`}},
		{"a CA in a Secret, which was looked for in a ConfigMap", racked("h", func(h *v1beta2.IngotHost) {
			h.Spec.BMC.CABundleRef = &v1beta2.CABundleReference{Name: "bmc"}
		}), racked("h", func(h *v1beta2.IngotHost) {
			h.Spec.BMC.CABundleRef = &v1beta2.CABundleReference{Name: "bmc", Kind: v1beta2.CABundleSecret}
		}), nil},
		{"a disk that it has not", racked("h", nil), racked("h", hinting), admission.Warnings{
			`spec.rootDeviceHints.serialNumber: "S-9" matches none of the inspected disks: /dev/sda "S-1"; correct it, or add such a disk and annotate the host ` +
				"with ingot.infrastructure.cluster.x-k8s.io/inspect=$(date -u +%FT%TZ) while it is free: until then only machines with their own hints or softwareRAID.members get the host"}},
		{"a disk that it has not, and changed otherwise", racked("h", hinting), racked("h", func(h *v1beta2.IngotHost) { hinting(h); h.Finalizers = []string{"x"} }), nil},
		{"its BMC taken away under a machine", racked("h", nil), racked("h", func(h *v1beta2.IngotHost) { h.Spec.BMC = nil }), admission.Warnings{
			`spec.bmc: is removed, but IngotMachine "m1" uses the host; restore it: without it Ingot cannot power the server or delete the machine`}},
		{"another card under a system with DHCP", racked("h", byDHCP), racked("h", func(h *v1beta2.IngotHost) { byDHCP(h); otherCard(h) }), admission.Warnings{
			`spec.bootMACAddress: with "02:00:00:00:00:99" the installed system of IngotMachine "m1" loses its address if it uses DHCP; ` +
				"delete the Machine first, and change this when the host is off"}},
		{"another card under a system with network data", racked("h", nil), racked("h", otherCard), nil},
		{"another card of a host that is being released", racked("h", byDHCP), racked("h", func(h *v1beta2.IngotHost) {
			byDHCP(h)
			otherCard(h)
			h.Spec.Claim.State = v1beta2.ClaimReleasing
		}), nil},
		{"its BMC taken away while it is free", racked("h", func(h *v1beta2.IngotHost) { h.Spec.Claim = nil }), racked("h", func(h *v1beta2.IngotHost) {
			h.Spec.Claim, h.Spec.BMC = nil, nil
		}), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newHostValidator(t, "ingot", neighbour.DeepCopy(), secret.DeepCopy(), there.DeepCopy(), facts.DeepCopy())
			ctx := request(t.Context(), "ingot")
			var got admission.Warnings
			var err error
			if tt.before == nil {
				got, err = v.ValidateCreate(ctx, tt.after)
			} else {
				got, err = v.ValidateUpdate(ctx, tt.before, tt.after)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A cluster causes warnings about its selectors when they change, and about its endpoint when that
// changes.
func TestClusterWarnings(t *testing.T) {
	cluster := func(change func(*v1beta2.IngotCluster)) *v1beta2.IngotCluster {
		out := &v1beta2.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		out.Spec.FailureDomainLabel = v1beta2.RackLabel
		change(out)
		return out
	}
	selecting := func(c *v1beta2.IngotCluster) {
		c.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "silver"}}
	}
	half := func(c *v1beta2.IngotCluster) { c.Spec.ControlPlaneEndpoint.Host = "api.c1.example" }
	nothing := func(*v1beta2.IngotCluster) {}
	unmatched := `spec.hostSelector: "tier=silver" matches no IngotHost of namespace ns; label the hosts, or correct it: its machines wait until then`
	unset := "spec.controlPlaneEndpoint.port: is unset; set it: the cluster waits until then"
	ranged := func(c *v1beta2.IngotCluster) {
		c.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: "10.0.0.10", Port: 6443}
	}
	inRange := `spec.controlPlaneEndpoint.host: "10.0.0.10" is in the range that is given to hosts of IngotNetwork rack-a; use another address, or make that range smaller. ` +
		"Ingot no longer assigns this address to hosts"
	tests := []struct {
		name          string
		before, after *v1beta2.IngotCluster
		want          admission.Warnings
	}{
		{"nothing changed", cluster(nothing), cluster(nothing), nil},
		{"a selector", cluster(nothing), cluster(selecting), admission.Warnings{unmatched}},
		{"a selector that stands", cluster(selecting), cluster(func(c *v1beta2.IngotCluster) { selecting(c); c.Labels = map[string]string{"a": "b"} }), nil},
		{"half an endpoint, beside a selector that stands", cluster(selecting), cluster(func(c *v1beta2.IngotCluster) { selecting(c); half(c) }), admission.Warnings{unset}},
		{"half an endpoint that stands", cluster(half), cluster(func(c *v1beta2.IngotCluster) { half(c); selecting(c) }), admission.Warnings{unmatched}},
		{"an endpoint in a range", cluster(nothing), cluster(ranged), admission.Warnings{inRange}},
		{"an endpoint in a range that stands", cluster(ranged), cluster(func(c *v1beta2.IngotCluster) { ranged(c); selecting(c) }), admission.Warnings{unmatched}},
		{"another port of one in a range", cluster(func(c *v1beta2.IngotCluster) { ranged(c); c.Spec.ControlPlaneEndpoint.Port = 0 }), cluster(ranged), nil},
		{"the label that was always meant", cluster(func(c *v1beta2.IngotCluster) { selecting(c); c.Spec.FailureDomainLabel = "" }), cluster(selecting), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := &clusterValidator{checker: warnings.Checker{Reader: newReader(t, claimed("h1"), network("rack-a", "10.0.0.0/24", "10.0.0.1", "10.0.0.99", ""))}}
			got, err := v.ValidateUpdate(request(t.Context(), "alice"), tt.before, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A network causes warnings about endpoints in its range when it is created or the range changes.
func TestNetworkWarnings(t *testing.T) {
	endpoint := &v1beta2.IngotCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
	endpoint.Spec.ControlPlaneEndpoint = v1beta2.APIEndpoint{Host: "10.0.0.10", Port: 6443}
	ranged := func(start string) *v1beta2.IngotNetwork {
		return network("rack-a", "10.0.0.0/24", start, "10.0.0.99", "")
	}
	labelled := ranged("10.0.0.10")
	labelled.Labels = map[string]string{"a": "b"}
	holds := admission.Warnings{"spec.range: contains the control plane endpoints 10.0.0.10 (see: kubectl get ingotclusters -A); make it smaller (Ingot does not assign these addresses)"}
	for name, tc := range map[string]struct {
		before, after *v1beta2.IngotNetwork // before is nil: created
		want          admission.Warnings
	}{
		"made with it":             {nil, ranged("10.0.0.10"), holds},
		"made beside it":           {nil, ranged("10.0.0.11"), nil},
		"made larger":              {ranged("10.0.0.11"), ranged("10.0.0.10"), holds},
		"made smaller":             {ranged("10.0.0.10"), ranged("10.0.0.11"), nil},
		"with it, and not changed": {ranged("10.0.0.10"), labelled, nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := newNetworkValidator(t, endpoint.DeepCopy())
			var got admission.Warnings
			var err error
			if tc.before == nil {
				got, err = v.ValidateCreate(t.Context(), tc.after)
			} else {
				got, err = v.ValidateUpdate(t.Context(), tc.before, tc.after)
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// oneEthernet is networkData of the boot NIC alone, with one address and these routes.
func oneEthernet(address map[string]any, routes ...any) map[string]any {
	ethernet := map[string]any{"name": "uplink0", "nic": map[string]any{"bootNIC": "Only"}, "addresses": []any{address}}
	if len(routes) > 0 {
		ethernet["routes"] = routes
	}
	return map[string]any{"ethernets": []any{ethernet}}
}

// What is let in with a warning, because it may become right later.
func (s *server) testWarned(t *testing.T) {
	const racked = "metadata.labels[" + v1beta2.RackLabel + "]"
	const keepsData = "spec.cleaning: with None the disks keep their data on release, and only the same cluster can use the host again; use Metadata to make it available to others"
	tests := []struct {
		name string
		testCase
		want []string
	}{
		{"nothing is missing but the CA bundle", testCase{Base: "ingothost-operator", Set: map[string]any{"metadata.name": "a01"}, Remove: []string{"spec.cleaning"}}, []string{
			`spec.bmc.caBundleRef.name: ConfigMap "bmc-ca" does not exist; create it with the key ca.crt: Ingot does not contact the BMC until then`}},
		{"Secret", testCase{Base: "ingothost-operator", Remove: []string{"spec.bmc.caBundleRef", "spec.cleaning"},
			Set: map[string]any{"spec.bmc.credentialsRef.name": "later"}}, []string{
			`spec.bmc.credentialsRef.name: Secret "later" does not exist; create it with the keys username and password: Ingot does not contact the BMC until then`}},
		{"network", testCase{Base: "ingothost-minimal", Set: map[string]any{"spec.networkRef.name": "later", racked: "rack-a"}}, []string{
			`spec.networkRef.name: IngotNetwork "later" does not exist; create it: Ingot does not boot the host until then`}},
		{"all there", testCase{Base: "ingothost-minimal", Set: map[string]any{racked: "rack-a"}}, nil},
		{"no rack, where others have one", testCase{Base: "ingothost-minimal"}, []string{
			"metadata.labels[" + v1beta2.RackLabel + "]: is not set, but other hosts of namespace default have the label; set it: the host is in no failure domain until then"}},
		{"any certificate, and data that stays", testCase{Base: "ingothost-operator", Remove: []string{"spec.bmc.caBundleRef"},
			Set: map[string]any{"spec.bmc.insecureSkipVerify": true}}, []string{
			"spec.bmc.insecureSkipVerify: true lets an attacker between Ingot and the BMC read the password; remove it, and set caBundleRef or certificateFingerprint", keepsData}},
		{"another form, and a slip in an annotation", testCase{Base: "ingothost-minimal", Set: map[string]any{
			racked: "rack-a", "spec.bootMACAddress": "5254.00AB.CDEF", "metadata.annotations[" + v1beta2.AnnotationPrefix + "aprove]": ""}}, []string{
			"metadata.annotations[" + v1beta2.AnnotationPrefix + `aprove]: "" has no effect on this kind; remove it, or correct it to one of ` +
				"approve, clear-quarantine, force-release, inspect, move-paused, reboot, release, retry-bmc, rotate-credentials",
			`spec.bootMACAddress: "5254.00AB.CDEF" is stored as "52:54:00:ab:cd:ef"; change the manifest, or tools such as Argo CD show a difference`}},
		{"cleaning", testCase{Base: "ingotmachine-operator", Set: map[string]any{"spec.cleaning": "None"}, Remove: []string{"spec.hostSelector"}}, []string{keepsData}},
		{"a selector that matches nothing", testCase{Base: "ingotmachine-operator"}, []string{
			`spec.hostSelector: "gpu notin (a100),tier=gold" matches no IngotHost of namespace default; label the hosts, or correct it: its machines wait until then`}},
		{"a template with one name, and cores that no host has", testCase{Base: "ingotmachinetemplate-maximal",
			Set: map[string]any{"spec.template.spec.hostSelector": map[string]any{"minimum": map[string]any{"cores": int64(96)}}}}, []string{
			"spec.template.spec.hostSelector.minimum.cores: none of the 1 inspected hosts has 96 cores (maximum: 24); correct it, or register such hosts: its machines wait until then",
			`spec.template.spec.hostname: "m1" becomes the name of every machine made from the template; remove it: each machine then has the name of its Machine`}},
		{"a template in a namespace without hosts", testCase{Base: "ingotmachinetemplate-minimal", Set: map[string]any{"metadata.namespace": "kube-public"}}, []string{
			`metadata.namespace: "kube-public" has no IngotHost; register hosts there: machines use only hosts of their own namespace, and wait until then`}},
		{"a template with a reservation on a network that does not exist", testCase{Base: "ingotmachinetemplate-minimal",
			Set: map[string]any{"spec.template.spec.networkData": oneEthernet(map[string]any{"source": "StaticLease", "networkRef": map[string]any{"name": "later"}})}}, []string{
			`spec.template.spec.networkData.ethernets[0].addresses[0].networkRef.name: IngotNetwork "later" does not exist; create it, or correct the name: its machines get no host until then`}},
		{"a template with a slip in a driver, and a disk that no host has", testCase{Base: "ingotmachinetemplate-minimal", Set: map[string]any{
			"spec.template.spec.rootDeviceHints": map[string]any{"serialNumber": "S4XXNX0N"},
			"spec.template.spec.networkData":     map[string]any{"ethernets": []any{map[string]any{"name": "uplink0", "nic": map[string]any{"driver": "bnxt_em"}, "dhcp": "IPv4"}}}}}, []string{
			`spec.template.spec.networkData.ethernets[0].nic: {"driver":"bnxt_em"}: none of the 1 inspected hosts has an interface for uplink0 ` +
				"(nearest: IngotHost a02: none of 1 interface have driver bnxt_em); correct it, or register such hosts: its machines wait until then",
			`spec.template.spec.rootDeviceHints.serialNumber: "S4XXNX0N": none of the 1 inspected hosts has a matching disk; correct it, or register such hosts: its machines wait until then`}},
		{"a machine with a gateway beside a default route", testCase{Base: "ingotmachine-minimal",
			Set: map[string]any{"spec.networkData": oneEthernet(map[string]any{"source": "StaticLease", "networkRef": map[string]any{"name": "rack-a"}, "gateway": "DefaultRoute"},
				map[string]any{"to": "0.0.0.0/0", "via": "10.10.0.2"})}}, []string{
			`spec.networkData.ethernets[0].addresses[0].gateway: is "DefaultRoute", so that the gateway 10.10.0.1 of IngotNetwork rack-a is a second default route next to a route of uplink0; ` +
				"set Ignore for one of them: its machines get no host until then"}},
		{"half an endpoint", testCase{Base: "ingotcluster-minimal", Set: map[string]any{"spec.controlPlaneEndpoint.host": "api.c1.example"}}, []string{
			"spec.controlPlaneEndpoint.port: is unset; set it: the cluster waits until then"}},
		{"an endpoint that hosts are given", testCase{Base: "ingotcluster-minimal", Set: map[string]any{"spec.controlPlaneEndpoint": map[string]any{"host": "[2001:db8:0:3::1005]", "port": int64(6443)}}}, []string{
			`spec.controlPlaneEndpoint.host: "2001:db8:0:3::1005" is in the range that is given to hosts of IngotNetwork rack-e; use another address, or make that range smaller. Ingot no longer assigns this address to hosts`,
			`spec.controlPlaneEndpoint.host: "[2001:db8:0:3::1005]" is stored as "2001:db8:0:3::1005"; change the manifest, or tools such as Argo CD show a difference`}},
		{"control planes and rows that do not exist", testCase{Base: "ingotcluster-maximal", Remove: []string{"spec.hostSelector"}}, []string{
			`spec.controlPlaneSelector: "!gpu,role=control-plane" matches no IngotHost that hostSelector matches; label the hosts, or correct it: its machines wait until then`,
			`spec.failureDomainLabel: no IngotHost for this cluster has the label "example.com/row"; label the hosts, or correct it: the cluster has no failure domains until then`}},
		{"a cluster template with one endpoint", testCase{Base: "ingotclustertemplate-minimal", Set: map[string]any{
			"spec.template.spec.controlPlaneEndpoint": map[string]any{"host": "api.c1.example", "port": int64(6443)}}}, []string{
			`spec.template.spec.controlPlaneEndpoint.host: "api.c1.example" becomes the endpoint of every cluster made from the template; remove it, and set it in each IngotCluster or by a ClusterClass patch`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := &warnings{}
			cfg := rest.CopyConfig(s.cfg)
			cfg.WarningHandler = seen
			c, err := client.New(cfg, client.Options{Scheme: s.scheme})
			if err != nil {
				t.Fatal(err)
			}
			object := readValid(t, tt.Base)
			tt.apply(t, object)
			object.SetName("warned") // of its own name, so that it does not exist
			if mac := "52:54:00:00:00:aa"; object.GetKind() == "IngotHost" && tt.Set["spec.bootMACAddress"] == nil {
				if err := set(object.Object, segments("spec.bootMACAddress"), mac); err != nil {
					t.Fatal(err)
				}
				if _, ok := get(object.Object, segments("spec.bmc.address")); ok {
					if err := set(object.Object, segments("spec.bmc.address"), "redfish://10.9.9.9"); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			slices.Sort(seen.list)
			equal(t, "warnings", tt.want, seen.list)
		})
	}
}

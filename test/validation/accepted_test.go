// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// What stands close to a refusal and must pass. All are dry runs.
func (s *server) testAccepted(t *testing.T) {
	tests := []struct {
		name string
		testCase
	}{
		{"the manager writes a claim", testCase{Base: "ingothost-maximal", Op: "update", As: "manager",
			Set: map[string]any{"spec.claim.state": "Releasing"}}},
		{"the manager removes the ledger", testCase{Base: "ingothost-maximal", Op: "update", As: "manager",
			Remove: []string{"spec.claim", "spec.order"}}},
		{"an operator changes what is his on a claimed host", testCase{Base: "ingothost-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.maintenance": true, "metadata.labels[rack]": "b"}}},
		{"an operator forces a host out that is not fenced", testCase{Base: "ingothost-maximal", Op: "delete-changed", As: operatorUser,
			Set:    map[string]any{"metadata.annotations[" + v1beta2.ForceReleaseAnnotation + "]": time.Now().UTC().Format(time.RFC3339), "spec.claim.state": "Releasing"},
			Remove: []string{"spec.claim.fencedTime"}}},
		{"an operator deletes a host that is being cleaned", testCase{Base: "ingothost-maximal", Op: "delete-changed", As: operatorUser,
			Set: map[string]any{"spec.claim.state": "Releasing"}}},
		{"clusterctl move deletes a claimed host", testCase{Base: "ingothost-maximal", Op: "delete-changed", As: operatorUser,
			Set: map[string]any{"metadata.annotations[" + clusterctlv1.DeleteForMoveAnnotation + "]": ""}}},
		{"an operator deletes a free host", testCase{Base: "ingothost-operator", Op: "delete", As: operatorUser}},
		{"an operator deletes a network without hosts", testCase{Base: "ingotnetwork-minimal", Op: "delete", As: operatorUser}},
		{"two systems behind one BMC", testCase{Base: "ingothost-operator", Op: "create", As: operatorUser, Set: map[string]any{
			"metadata.name": "a03", "spec.bootMACAddress": "52:54:00:00:00:04",
			"spec.bmc.address": "redfish://BMC-A01.dc1.example:8443/redfish/v1/Systems/2"}}},
		{"a root disk by its place", acceptedDisk("/dev/disk/by-path/pci-0000:03:00.0-sas-exp0x500304801f0c2f3f-phy12-lun-0")},
		{"a root disk at a host's own bus", acceptedDisk("/dev/disk/by-path/pci-0000:64:00.5-pci-10000:01:00.0-nvme-1")},
		{"a root disk by a name with a slash", acceptedDisk("/dev/cciss/c0d0")},
		{"a BMC by IPMI", acceptedAddress("ipmi://10.0.0.9")},
		{"a BMC by IPMI on another port", acceptedAddress("ipmi://[2001:db8::9]:6230/")},
		{"a BMC in clear", acceptedAddress("redfish+http://10.0.0.9:8000/redfish/v1/Systems/1")},
		{"a BMC by a maker's way", acceptedAddress("vendor+dell://idrac-9.example")},
		{"a BMC by its name alone", acceptedAddress("bmc-9.dc1.example")},
		{"a BMC by its name and port", acceptedAddress("bmc-9:8443")},
		{"a BMC by its IPv6 address alone", acceptedAddress("2001:db8::9")},
		{"a BMC by its IPv6 address in brackets", acceptedAddress("[2001:db8::9]:8443")},
		{"the manager chooses a host", testCase{Base: "ingotmachine-operator", Op: "update", As: "manager",
			Set: map[string]any{"spec.providerID": "ingot://default/a01/6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d12"}}},
		{"the manager clears its choice", testCase{Base: "ingotmachine-maximal", Op: "update", As: "manager",
			Remove: []string{"spec.providerID"}}},
		{"labels of a machine", testCase{Base: "ingotmachine-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"metadata.labels[pool]": "b"}}},
		{"metadata of a template", testCase{Base: "ingotmachinetemplate-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.template.metadata.labels[pool]": "b"}}},
		{"the topology's dry run on a machine template", testCase{Base: "ingotmachinetemplate-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.template.spec.hostname": "other",
				"metadata.annotations[" + clusterv1.TopologyDryRunAnnotation + "]": ""}}},
		{"the topology's dry run on a cluster template", testCase{Base: "ingotclustertemplate-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.template.spec.controlPlaneEndpoint.host": "other.example",
				"metadata.annotations[" + clusterv1.TopologyDryRunAnnotation + "]": ""}}},
		{"an endpoint given later", testCase{Base: "ingotcluster-minimal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.controlPlaneEndpoint": map[string]any{"host": "10.0.0.9", "port": 6443}}}},
		{"the failure domain label before provisioning", testCase{Base: "ingotcluster-minimal", Op: "update", As: operatorUser,
			Set: map[string]any{"spec.failureDomainLabel": "example.com/row"}}},
		{"annotations of hardware", testCase{Base: "ingothardware-maximal", Op: "update", As: operatorUser,
			Set: map[string]any{"metadata.annotations[note]": "x"}}},
		{"the manager writes hardware", testCase{Base: "ingothardware-maximal", Op: "update", As: "manager",
			Set: map[string]any{"spec.address.ip": "10.10.0.21"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			object := readValid(t, tt.Base)
			if tt.Op == "delete-changed" {
				// The change must be stored, or the webhook would not see it.
				s.change(t, object, tt.testCase)
				tt.Op, tt.Set, tt.Remove = "delete", nil, nil
			}
			if err := s.try(t, tt.testCase, object); err != nil {
				t.Errorf("was refused: %v", err)
			}
		})
	}
}

// acceptedDisk names a host's root disk.
func acceptedDisk(name string) testCase {
	return testCase{Base: "ingothost-operator", Op: "update", As: operatorUser, Set: map[string]any{"spec.rootDeviceHints.deviceName": name}}
}

// acceptedAddress is a new host by that address, whose certificate is the BMC's own
// business.
func acceptedAddress(address string) testCase {
	return testCase{Base: "ingothost-operator", Op: "create", As: operatorUser, Remove: []string{"spec.bmc.caBundleRef"}, Set: map[string]any{
		"metadata.name": "a03", "spec.bootMACAddress": "52:54:00:00:00:04", "spec.bmc.address": address,
	}}
}

// change stores an object otherwise, as the manager, for the time of the test.
func (s *server) change(t *testing.T, object *unstructured.Unstructured, c testCase) {
	t.Helper()
	manager := s.people["manager"]
	stored := object.DeepCopy()
	if err := manager.Get(t.Context(), client.ObjectKeyFromObject(object), stored); err != nil {
		t.Fatal(err)
	}
	before := stored.DeepCopy()
	c.apply(t, stored)
	if err := manager.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		before.SetResourceVersion(stored.GetResourceVersion())
		// The test's own context has ended by now.
		if err := manager.Update(context.WithoutCancel(t.Context()), before); err != nil {
			t.Error(err)
		}
	})
}

// An object written in v1beta1 is read in v1beta2 and back, through the real
// conversion webhook, and loses nothing on the way.
func (s *server) testConverted(t *testing.T) {
	admin := s.people["admin"]
	spoke := &v1beta1.IngotMachine{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"},
		Spec: v1beta1.IngotMachineSpec{
			Image: v1beta1.Image{
				URL:      "https://images.example/os.raw.zst",
				Checksum: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
			},
			HostSelector: &v1beta1.HostSelector{MatchLabels: map[string]string{"tier": "gold"}},
		},
	}
	if err := admin.Create(t.Context(), spoke); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(spoke)
	hub := &v1beta2.IngotMachine{}
	if err := admin.Get(t.Context(), key, hub); err != nil {
		t.Fatal(err)
	}
	want := v1beta2.IngotMachineSpec{
		Image:        v1beta2.Image{URL: spoke.Spec.Image.URL, Checksum: spoke.Spec.Image.Checksum, Format: "raw"},
		HostSelector: &v1beta2.HostSelector{MatchLabels: map[string]string{"tier": "gold"}},
	}
	equal(t, "spec read in v1beta2", want, hub.Spec)

	// What the manager writes in v1beta2 …
	hub.Status.Initialization.Provisioned = new(true)
	hub.Status.FailureDomain = "rack-a"
	hub.Status.Conditions = []metav1.Condition{{
		Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: metav1.Now().Rfc3339Copy(),
	}}
	if err := admin.Status().Update(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	// … a reader of contract v1beta1 sees, …
	if err := admin.Get(t.Context(), key, spoke); err != nil {
		t.Fatal(err)
	}
	wantStatus := v1beta1.IngotMachineStatus{
		Ready: true, FailureDomain: "rack-a", V1Beta2: &v1beta1.IngotMachineV1Beta2Status{Conditions: hub.Status.Conditions},
	}
	equal(t, "status read in v1beta1", wantStatus, spoke.Status)
	// … and a writer of v1beta1 leaves alone.
	spoke.Labels = map[string]string{"touched": "yes"}
	if err := admin.Update(t.Context(), spoke); err != nil {
		t.Fatal(err)
	}
	after := &v1beta2.IngotMachine{}
	if err := admin.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	equal(t, "spec after a write in v1beta1", hub.Spec, after.Spec)
	equal(t, "status after a write in v1beta1", hub.Status, after.Status)
	equal(t, "annotations stored", hub.Annotations, after.Annotations)

	s.testConvertedCluster(t)
}

func (s *server) testConvertedCluster(t *testing.T) {
	admin := s.people["admin"]
	hub := &v1beta2.IngotCluster{ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: "default"}}
	if err := admin.Create(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	hub.Status.FailureDomains = []clusterv1.FailureDomain{
		{Name: "rack-b", ControlPlane: new(true)}, {Name: "rack-a", ControlPlane: new(false)},
	}
	if err := admin.Status().Update(t.Context(), hub); err != nil {
		t.Fatal(err)
	}
	spoke := &v1beta1.IngotCluster{}
	key := client.ObjectKeyFromObject(hub)
	if err := admin.Get(t.Context(), key, spoke); err != nil {
		t.Fatal(err)
	}
	if len(spoke.Status.FailureDomains) != 2 || !spoke.Status.FailureDomains["rack-b"].ControlPlane {
		t.Errorf("failure domains in v1beta1 (C09): %v", spoke.Status.FailureDomains)
	}
	spoke.Status.Ready = true
	if err := admin.Status().Update(t.Context(), spoke); err != nil {
		t.Fatal(err)
	}
	after := &v1beta2.IngotCluster{}
	if err := admin.Get(t.Context(), key, after); err != nil {
		t.Fatal(err)
	}
	equal(t, "failure domains after a write in v1beta1", hub.Status.FailureDomains, after.Status.FailureDomains)
	if p := after.Status.Initialization.Provisioned; p == nil || !*p {
		t.Error("ready in v1beta1 is not provisioned in v1beta2")
	}
}

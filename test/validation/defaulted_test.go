// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

const upperSum = "SHA256:E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"

// What means the same is stored in one form, in either version of the API, and read
// back so. Real writes, into a namespace that the rest does not read.
func (s *server) testDefaulted(t *testing.T) {
	tests := []struct {
		name, base, version string
		set                 map[string]any
		want                map[string]any
	}{
		{"MAC address and scheme of a host", "ingothost-operator", "v1beta2",
			map[string]any{"spec.bootMACAddress": "5254.00DD.EE01", "spec.bmc.address": "Redfish://BMC-Z01.DC1.example"},
			map[string]any{"spec.bootMACAddress": "52:54:00:dd:ee:01", "spec.bmc.address": "redfish://BMC-Z01.DC1.example"}},
		{"a host from a backup, which stands still instead", "ingothost-operator", "v1beta2",
			map[string]any{"metadata.annotations[" + clusterctlv1.BlockMoveAnnotation + "]": "", "spec.bootMACAddress": "52:54:00:dd:ee:02", "spec.bmc.address": "redfish://bmc-z02.dc1.example"},
			map[string]any{"metadata.annotations[" + clusterctlv1.BlockMoveAnnotation + "]": nil}},
		{"checksum and host name of a machine", "ingotmachine-operator", "v1beta2",
			map[string]any{"spec.image.checksum": upperSum, "spec.hostname": "Node-7"},
			map[string]any{"spec.image.checksum": strings.ToLower(upperSum), "spec.hostname": "node-7"}},
		{"the same, in the older version", "ingotmachine-operator", "v1beta1",
			map[string]any{"spec.image.checksum": upperSum, "spec.hostname": "Node-7"},
			map[string]any{"spec.image.checksum": strings.ToLower(upperSum), "spec.hostname": "node-7"}},
		{"a machine template", "ingotmachinetemplate-maximal", "v1beta2",
			map[string]any{"spec.template.spec.image.checksum": upperSum, "spec.template.spec.hostname": "Node-7"},
			map[string]any{"spec.template.spec.image.checksum": strings.ToLower(upperSum), "spec.template.spec.hostname": "node-7"}},
		{"a cluster", "ingotcluster-maximal", "v1beta2", map[string]any{"spec.controlPlaneEndpoint.host": "[2001:db8::9]"},
			map[string]any{"spec.controlPlaneEndpoint.host": "2001:db8::9", "spec.failureDomainLabel": "example.com/row"}},
		{"a cluster without a spec", "ingotcluster-minimal", "v1beta2", nil, map[string]any{"spec.failureDomainLabel": v1beta2.RackLabel}},
		{"the same, in the older version", "ingotcluster-minimal", "v1beta1", nil, map[string]any{"spec.failureDomainLabel": v1beta2.RackLabel}},
		{"a cluster template", "ingotclustertemplate-maximal", "v1beta2", map[string]any{"spec.template.spec.controlPlaneEndpoint.host": "api.c9.example."},
			map[string]any{"spec.template.spec.controlPlaneEndpoint.host": "api.c9.example"}},
		{"a cluster template with metadata only", "ingotclustertemplate-maximal", "v1beta2", map[string]any{"spec.template.spec": nil},
			map[string]any{"spec.template.spec.failureDomainLabel": v1beta2.RackLabel}},
		{"a network", "ingotnetwork-maximal", "v1beta2", map[string]any{"spec.domain": "DC1.Example.",
			"spec.subnet": "10.77.0.0/24", "spec.range.start": "10.77.0.10", "spec.range.end": "10.77.0.99", "spec.gateway": "10.77.0.1"},
			map[string]any{"spec.domain": "dc1.example"}},
	}
	for _, tt := range tests {
		t.Run(tt.name+"/"+tt.version, func(t *testing.T) {
			object := readValid(t, tt.base)
			object.SetAPIVersion(v1beta2.GroupVersion.Group + "/" + tt.version)
			object.SetName("defaulted")
			testCase{Set: tt.set}.apply(t, object)
			if err := s.people[operatorUser].Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			for path, want := range tt.want {
				got, _ := get(object.Object, segments(path))
				equal(t, path, want, got)
			}
		})
	}
}

// testTopology is what the topology controller does all day: it applies what it wants
// a template to be, as a dry run with its annotation, and looks whether anything
// would change (M35–M37).
func (s *server) testTopology(t *testing.T) {
	kinds := []struct {
		base, same, other, otherValue string
	}{
		{"ingotmachinetemplate-maximal", "spec.template.spec.image.checksum", "spec.template.spec.image.url", "https://images.example/new.raw.zst"},
		{"ingotclustertemplate-maximal", "spec.template.spec.controlPlaneEndpoint.host", "spec.template.spec.failureDomainLabel", "example.com/room"},
	}
	sameByMeaning := map[string]string{"ingotmachinetemplate-maximal": upperSum, "ingotclustertemplate-maximal": "api.c1.example."}
	for _, k := range kinds {
		t.Run(k.base, func(t *testing.T) {
			stored := readValid(t, k.base)
			if err := s.people["admin"].Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			spec := func(o *unstructured.Unstructured) any {
				value, _ := get(o.Object, segments("spec.template.spec"))
				return value
			}
			apply := func(path string, value any, annotated bool, opts ...client.ApplyOption) (*unstructured.Unstructured, error) {
				wanted := readValid(t, k.base)
				change := map[string]any{path: value}
				if annotated {
					change["metadata.annotations["+clusterv1.TopologyDryRunAnnotation+"]"] = ""
				}
				testCase{Set: change}.apply(t, wanted)
				opts = append(opts, client.FieldOwner("capi-topology"), client.ForceOwnership)
				err := s.people[operatorUser].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(wanted), opts...)
				return wanted, err
			}
			// Nothing changes: nor does anything where only the writing differs.
			for _, value := range []any{stringAt(t, stored, k.same), sameByMeaning[k.base]} {
				got, err := apply(k.same, value, true, client.DryRunAll)
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "dry run of "+value.(string), spec(stored), spec(got))
			}
			// A change is shown in the dry run …
			got, err := apply(k.other, k.otherValue, true, client.DryRunAll)
			if err != nil {
				t.Fatalf("the topology's dry run was refused: %v", err)
			}
			equal(t, k.other, k.otherValue, stringAt(t, got, k.other))
			// … and nowhere else.
			if _, err := apply(k.other, k.otherValue, false, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("a dry run without the annotation: %v", err)
			}
			if _, err := apply(k.other, k.otherValue, true); !apierrors.IsInvalid(err) {
				t.Errorf("the annotation without a dry run: %v", err)
			}
			after := stored.DeepCopy()
			if err := s.people["admin"].Get(t.Context(), client.ObjectKeyFromObject(after), after); err != nil {
				t.Fatal(err)
			}
			equal(t, "stored", stored.Object, after.Object)
		})
	}
}

// KCP asks by a dry run whether a machine could become another in place, and takes
// Invalid for a no; anything else it takes for a failure and tries for ever (M64).
func (s *server) testInPlace(t *testing.T) {
	for value, allowed := range map[string]bool{"m1": true, "M1": true, "other": false} {
		wanted := readValid(t, "ingotmachine-maximal")
		testCase{Set: map[string]any{"spec.hostname": value}}.apply(t, wanted)
		err := s.people[operatorUser].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(wanted),
			client.DryRunAll, client.FieldOwner("capi-kubeadmcontrolplane"), client.ForceOwnership)
		if allowed && err != nil || !allowed && !apierrors.IsInvalid(err) {
			t.Errorf("hostname %s: %v", value, err)
		}
	}
}

func stringAt(t *testing.T, object *unstructured.Unstructured, path string) string {
	t.Helper()
	value, _ := get(object.Object, segments(path))
	text, ok := value.(string)
	if !ok {
		t.Fatalf("%s: no text", path)
	}
	return text
}

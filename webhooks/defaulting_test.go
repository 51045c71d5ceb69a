// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/randfill"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func newDecoder(t testing.TB) admission.Decoder {
	t.Helper()
	return admission.NewDecoder(testscheme.Scheme(t))
}

func handle[T client.Object](t *testing.T, object T, d defaulter[T], raw string) admission.Response {
	t.Helper()
	return newMutation(newDecoder(t), object, d).Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)},
	}})
}

// The patch contains only normalized values, and a warning names each.
func TestMutation(t *testing.T) {
	const head = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2",`
	sum := strings.Repeat("AB", 32)
	host := func(raw string) func(*testing.T) admission.Response {
		return func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotHost{}, defaultHost, head+`"kind":"IngotHost",`+raw+`}`)
		}
	}
	tests := []struct {
		name     string
		do       func(*testing.T) admission.Response
		want     string // JSON patches
		warnings []string
	}{
		{"canonical already, with fields that nobody knows",
			host(`"spec":{"bootMACAddress":"aa:bb:cc:00:11:22","colour":"red"}`), `[]`, nil},
		{"a MAC address and a scheme",
			host(`"spec":{"bootMACAddress":"AA-BB-CC-00-11-22","colour":"red","bmc":{"address":"Redfish://10.0.0.9"}}`),
			`[{"op":"replace","path":"/spec/bmc/address","value":"redfish://10.0.0.9"},
			  {"op":"replace","path":"/spec/bootMACAddress","value":"aa:bb:cc:00:11:22"}]`,
			[]string{
				`spec.bmc.address: "Redfish://10.0.0.9" is stored as "redfish://10.0.0.9"; change the manifest, or tools such as Argo CD show a difference`,
				`spec.bootMACAddress: "AA-BB-CC-00-11-22" is stored as "aa:bb:cc:00:11:22"; change the manifest, or tools such as Argo CD show a difference`,
			}},
		{"a password is not repeated", host(`"spec":{"bmc":{"address":"REDFISH://root:calvin@10.0.0.9"}}`), `[]`, nil},
		{"a number where text belongs is the schema's to refuse", host(`"spec":{"bootMACAddress":52}`), `[]`, nil},
		{"the ledger is not touched", host(`"spec":{"claim":{"image":{"checksum":"sha256:` + sum + `"},"hostname":"UPPER"}}`), `[]`, nil},
		{"a machine", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotMachine{}, defaultMachine,
				head+`"kind":"IngotMachine","metadata":{"creationTimestamp":null},"spec":{"image":{"url":"u","checksum":"SHA256:`+sum+`"}}}`)
		}, `[{"op":"replace","path":"/spec/image/checksum","value":"sha256:` + strings.ToLower(sum) + `"}]`, []string{
			`spec.image.checksum: "SHA256:` + sum + `" is stored as "sha256:` + strings.ToLower(sum) +
				`"; change the manifest, or tools such as Argo CD show a difference`}},
		{"a cluster without a spec gets the label, without a word", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotCluster{}, defaultCluster, head+`"kind":"IngotCluster"}`)
		}, `[{"op":"add","path":"/spec","value":{"failureDomainLabel":"` + v1beta2.RackLabel + `"}}]`, nil},
		{"a template that forgot everything is left to be refused", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotClusterTemplate{}, defaultClusterTemplate, head+`"kind":"IngotClusterTemplate"}`)
		}, `[]`, nil},
		{"a network", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotNetwork{}, defaultNetwork, head+`"kind":"IngotNetwork","spec":{"subnet":"010.0.0.0/8","domain":"DC1.example."}}`)
		}, `[{"op":"replace","path":"/spec/domain","value":"dc1.example"}]`, []string{
			`spec.domain: "DC1.example." is stored as "dc1.example"; change the manifest, or tools such as Argo CD show a difference`}},
		{"sets and keys of a network are left to be refused", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotNetwork{}, defaultNetwork, head+`"kind":"IngotNetwork","spec":{"searchDomains":["DC1.example.","example"],"reservations":[{"mac":"AA-BB-CC-00-11-22","ip":"10.0.0.9"}]}}`)
		}, `[]`, nil},
		{"sets of a machine, too", func(t *testing.T) admission.Response {
			return handle(t, &v1beta2.IngotMachine{}, defaultMachine, head+`"kind":"IngotMachine","spec":{"networkData":{"ethernets":[{"searchDomains":["A."]}],"bonds":[{"searchDomains":["B."]}],"vlans":[{"searchDomains":["C."]}]}}}`)
		}, `[]`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.do(t)
			if !got.Allowed {
				t.Errorf("was refused: %v", got.Result)
			}
			var want, patches []any
			data, err := json.Marshal(got.Patches)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(json.Unmarshal([]byte(tt.want), &want), json.Unmarshal(data, &patches)); err != nil {
				t.Fatal(err)
			}
			byPath := cmpopts.SortSlices(func(a, b any) bool {
				return a.(map[string]any)["path"].(string) < b.(map[string]any)["path"].(string)
			})
			if diff := cmp.Diff(want, patches, byPath, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, got.Warnings, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// writings returns values that users write, and values as from fuzzing.
func writings() []string {
	sum := strings.Repeat("AB", 32)
	return []string{"", "Node-1", "node-1.", "AA-BB-CC-00-11-22", "SHA256:" + sum, "sha256:" + sum, sum, "[2001:db8::9]", "API.c1.example.",
		" https://images.example/os.raw\n", "\u212a", ".", "[", "example.com/Row", "x"}
}

// A template and its object are normalized alike and idempotently, because the topology controller
// would otherwise see a permanent difference.
func TestTemplateAndObjectAreNormalizedAlike(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) {
			if c.Bool() {
				*s = writings()[c.Intn(len(writings()))]
			} else {
				*s = c.String(8)
			}
		})
	changed := 0
	for range 2000 {
		var machine v1beta2.IngotMachineSpec
		fill.Fill(&machine)
		machineTemplate, ingotMachine := &v1beta2.IngotMachineTemplate{}, &v1beta2.IngotMachine{}
		machineTemplate.Spec.Template.Spec, ingotMachine.Spec = *machine.DeepCopy(), *machine.DeepCopy()
		defaultMachineTemplate(machineTemplate)
		defaultMachine(ingotMachine)
		same(t, "IngotMachine", machineTemplate.Spec.Template.Spec, ingotMachine.Spec)
		if !cmp.Equal(machine, ingotMachine.Spec) {
			changed++
		}
		again := ingotMachine.DeepCopy()
		defaultMachine(again)
		same(t, "IngotMachine, twice", ingotMachine.Spec, again.Spec)
		// An object from the stored template is stored unchanged.
		made := &v1beta2.IngotMachine{Spec: *machineTemplate.Spec.Template.Spec.DeepCopy()}
		defaultMachine(made)
		same(t, "IngotMachine, from the stored template", machineTemplate.Spec.Template.Spec, made.Spec)

		var cluster v1beta2.IngotClusterSpec
		fill.Fill(&cluster)
		clusterTemplate, ingotCluster := &v1beta2.IngotClusterTemplate{}, &v1beta2.IngotCluster{}
		clusterTemplate.Spec.Template.Spec, ingotCluster.Spec = *cluster.DeepCopy(), *cluster.DeepCopy()
		clusterTemplate.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"} // says something
		defaultClusterTemplate(clusterTemplate)
		defaultCluster(ingotCluster)
		same(t, "IngotCluster", clusterTemplate.Spec.Template.Spec, ingotCluster.Spec)
		made2 := &v1beta2.IngotCluster{Spec: *clusterTemplate.Spec.Template.Spec.DeepCopy()}
		defaultCluster(made2)
		same(t, "IngotCluster, from the stored template", clusterTemplate.Spec.Template.Spec, made2.Spec)
	}
	if changed < 200 {
		t.Errorf("only %d of 2000 specs were changed at all: the test proves little", changed)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-template +object):\n%s", what, diff)
	}
}

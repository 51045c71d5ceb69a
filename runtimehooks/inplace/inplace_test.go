// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const providerID = "ingot://dc1/h1/00000000-0000-0000-0000-000000000001"

// objects returns a host with the label class=gpu, its machine and a Machine of a MachineSet.
func objects(t *testing.T) client.Client {
	t.Helper()
	scheme := testscheme.Scheme(t)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "h1", Labels: map[string]string{"class": "gpu"}}, Spec: infrav1.IngotHostSpec{
			Claim: &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m1"}, Cleaning: infrav1.CleaningMetadata},
		}},
		&infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "m1"}, Spec: infrav1.IngotMachineSpec{ProviderID: providerID}},
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "m1", Labels: map[string]string{clusterv1.MachineSetNameLabel: "set"}},
			Spec: clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: "m1"}}},
	).Build()
}

func machine(spec string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachine","metadata":{"namespace":"dc1","name":"m1"},"spec":{"providerID":"` + providerID + `"` + spec + `}}`)}
}

func template(spec string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachineTemplate","spec":{"template":{"spec":{"imageRef":{"name":"i"}` + spec + `}}}}`)}
}

// A change in place gets a patch for all of its fields, or none.
func TestCanUpdate(t *testing.T) {
	for name, tc := range map[string]struct{ current, desired, want string }{
		"nothing":                        {"", "", ""},
		"cleaning":                       {`,"cleaning":"Metadata"`, `,"cleaning":"None"`, `[{"op":"add","path":"$/cleaning","value":"None"}]`},
		"cleaning, first said":           {"", `,"cleaning":"None"`, `[{"op":"add","path":"$/cleaning","value":"None"}]`},
		"cleaning, unsaid":               {`,"cleaning":"Metadata"`, "", ""},
		"labels that the host has":       {`,"hostSelector":{"architecture":"amd64"}`, `,"hostSelector":{"architecture":"amd64","matchLabels":{"class":"gpu"}}`, `[{"op":"add","path":"$/hostSelector","value":{"architecture":"amd64","matchLabels":{"class":"gpu"}}}]`},
		"no selector any more":           {`,"hostSelector":{"matchLabels":{"class":"gpu"}}`, "", `[{"op":"remove","path":"$/hostSelector"}]`},
		"labels that the host lacks":     {"", `,"hostSelector":{"matchLabels":{"class":"cpu"}}`, ""},
		"other hardware":                 {`,"hostSelector":{"matchLabels":{"class":"gpu"}}`, `,"hostSelector":{"matchLabels":{"class":"gpu"},"minimum":{"cores":2}}`, ""},
		"another architecture":           {`,"hostSelector":{"architecture":"amd64"}`, `,"hostSelector":{"architecture":"arm64"}`, ""},
		"a selector of another form":     {"", `,"hostSelector":7`, ""},
		"another host name":              {"", `,"hostname":"x"`, ""},
		"cleaning and another host name": {"", `,"hostname":"x","cleaning":"None"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := objects(t)
			o := Options{Cache: c, Live: c}
			one := &runtimehooksv1.CanUpdateMachineResponse{}
			o.canUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{
				Current: runtimehooksv1.CanUpdateMachineRequestObjects{InfrastructureMachine: machine(tc.current), Machine: clusterv1.Machine{
					ObjectMeta: metav1.ObjectMeta{Namespace: "dc1"}, Spec: clusterv1.MachineSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{Name: "m1"}},
				}},
				Desired: runtimehooksv1.CanUpdateMachineRequestObjects{InfrastructureMachine: machine(tc.desired)},
			}, one)
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "$", "/spec"), string(one.InfrastructureMachinePatch.Patch)); diff != "" || one.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Errorf("machine: %s %s", one.Message, diff)
			}
			set := &runtimehooksv1.CanUpdateMachineSetResponse{}
			o.canUpdateMachineSet(t.Context(), &runtimehooksv1.CanUpdateMachineSetRequest{
				Current: runtimehooksv1.CanUpdateMachineSetRequestObjects{InfrastructureMachineTemplate: template(tc.current), MachineSet: clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "set"}}},
				Desired: runtimehooksv1.CanUpdateMachineSetRequestObjects{InfrastructureMachineTemplate: template(tc.desired)},
			}, set)
			if diff := cmp.Diff(strings.ReplaceAll(tc.want, "$", "/spec/template/spec"), string(set.InfrastructureMachineTemplatePatch.Patch)); diff != "" || set.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Errorf("set: %s %s", set.Message, diff)
			}
		})
	}
}

// Other providers' machines get no patch, and invalid objects fail.
func TestOthers(t *testing.T) {
	c := objects(t)
	o := Options{Cache: c, Live: c}
	docker := runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DockerMachine","spec":{"a":1}}`)}
	for name, tc := range map[string]struct {
		object runtime.RawExtension
		want   runtimehooksv1.ResponseStatus
	}{
		"another provider's": {docker, runtimehooksv1.ResponseStatusSuccess},
		"nothing":            {runtime.RawExtension{}, runtimehooksv1.ResponseStatusFailure},
		"garbage":            {runtime.RawExtension{Raw: []byte("7")}, runtimehooksv1.ResponseStatusFailure},
		"no spec":            {runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachine"}`)}, runtimehooksv1.ResponseStatusFailure},
	} {
		can := &runtimehooksv1.CanUpdateMachineResponse{}
		o.canUpdateMachine(t.Context(), &runtimehooksv1.CanUpdateMachineRequest{
			Current: runtimehooksv1.CanUpdateMachineRequestObjects{InfrastructureMachine: tc.object}, Desired: runtimehooksv1.CanUpdateMachineRequestObjects{InfrastructureMachine: tc.object},
		}, can)
		update := &runtimehooksv1.UpdateMachineResponse{}
		o.updateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{InfrastructureMachine: tc.object}}, update)
		if can.Status != tc.want || update.Status != tc.want || update.RetryAfterSeconds != 0 || can.InfrastructureMachinePatch.IsDefined() {
			t.Errorf("%s: %s, %s", name, can.Status, update.Status)
		}
	}
}

// UpdateMachine waits until the claim has the machine's cleaning, and writes nothing.
func TestUpdateMachine(t *testing.T) {
	c := objects(t)
	o := Options{Cache: c, Live: c}
	ask := func(spec string) *runtimehooksv1.UpdateMachineResponse {
		answer := &runtimehooksv1.UpdateMachineResponse{}
		o.updateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{InfrastructureMachine: machine(spec)}}, answer)
		return answer
	}
	for spec, want := range map[string]struct {
		wait    int32
		message string
	}{
		"":                       {0, ""},
		`,"cleaning":"Metadata"`: {0, ""},
		`,"cleaning":"None"`:     {RetryAfterSeconds, "waiting until spec.claim.cleaning of IngotHost h1 is None"},
	} {
		for range 2 {
			if got := ask(spec); got.RetryAfterSeconds != want.wait || got.Message != want.message || got.Status != runtimehooksv1.ResponseStatusSuccess {
				t.Errorf("%s: %+v", spec, got)
			}
		}
	}
	host := &infrav1.IngotHost{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "dc1", Name: "h1"}, host); err != nil {
		t.Fatal(err)
	}
	host.Spec.Claim.Cleaning = infrav1.CleaningNone
	if err := c.Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if got := ask(`,"cleaning":"None"`); got.RetryAfterSeconds != 0 {
		t.Errorf("still waits: %+v", got)
	}
	if err := c.Delete(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if got := ask(`,"cleaning":"None"`); got.RetryAfterSeconds == 0 || !strings.Contains(got.Message, "waiting until an IngotHost is claimed") {
		t.Errorf("without its host: %+v", got)
	}
}

// UpdateMachine fails for a failed or deleted machine, and waits for a paused one.
func TestUpdateMachineNotReconciled(t *testing.T) {
	failedFor := func(m *infrav1.IngotMachine) {
		m.Status.Deprecated = &infrav1.IngotMachineDeprecatedStatus{V1Beta1: &infrav1.IngotV1Beta1DeprecatedStatus{FailureReason: new("UpdateError")}}
	}
	for name, tc := range map[string]struct {
		change  func(*infrav1.IngotMachine)
		gone    bool
		spec    string
		status  runtimehooksv1.ResponseStatus
		wait    int32
		message string
	}{
		"failed":                    {change: failedFor, spec: `,"cleaning":"None"`, status: runtimehooksv1.ResponseStatusFailure, message: "delete the Machine to replace it"},
		"failed, nothing to change": {change: failedFor, spec: `,"cleaning":"Metadata"`, status: runtimehooksv1.ResponseStatusSuccess},
		"gone":                      {gone: true, spec: `,"cleaning":"None"`, status: runtimehooksv1.ResponseStatusFailure, message: "is deleted"},
		"paused": {change: func(m *infrav1.IngotMachine) {
			m.Status.Conditions = []metav1.Condition{{Type: infrav1.PausedCondition, Status: metav1.ConditionTrue}}
		}, spec: `,"cleaning":"None"`, status: runtimehooksv1.ResponseStatusSuccess, wait: RetryAfterSeconds, message: "is unpaused"},
	} {
		t.Run(name, func(t *testing.T) {
			c := objects(t)
			m := &infrav1.IngotMachine{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "dc1", Name: "m1"}, m); err != nil {
				t.Fatal(err)
			}
			if tc.gone {
				if err := c.Delete(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			} else {
				tc.change(m)
				if err := c.Update(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			answer := &runtimehooksv1.UpdateMachineResponse{}
			Options{Cache: c, Live: c}.updateMachine(t.Context(), &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{InfrastructureMachine: machine(tc.spec)}}, answer)
			if answer.Status != tc.status || answer.RetryAfterSeconds != tc.wait || !strings.Contains(answer.Message, tc.message) || tc.message == "" && answer.Message != "" {
				t.Errorf("%+v", answer)
			}
		})
	}
}

// Handler names are unique DNS labels.
func TestHandlers(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range Handlers(Options{}) {
		if seen[h.Name] || h.Name == "" {
			t.Errorf("handler %q", h.Name)
		}
		seen[h.Name] = true
	}
	data, err := json.Marshal([]Operation{{Op: "remove", Path: "/a"}})
	if err != nil || string(data) != `[{"op":"remove","path":"/a"}]` {
		t.Errorf("%s %v", data, err)
	}
}

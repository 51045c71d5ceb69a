// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// healthChecks returns the Lua of config/argocd by kind.
func healthChecks(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../config/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, config); err != nil {
		t.Fatal(err)
	}
	checks := map[string]string{}
	for key, script := range config.Data {
		kind, found := strings.CutPrefix(key, "resource.customizations.health."+infrav1.GroupVersion.Group+"_")
		if !found {
			t.Errorf("Argo CD reads no key %s", key)
		}
		checks[kind] = script
	}
	return checks
}

// health runs a check as Argo CD does: with the object as the global table obj, and without
// the libraries of Lua that reach outside.
func health(t *testing.T, script string, object client.Object) (status, message string) {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(text, &decoded); err != nil {
		t.Fatal(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		state.Push(state.NewFunction(open))
		state.Call(0, 0)
	}
	state.SetGlobal("obj", toLua(state, decoded))
	if err := state.DoString(script); err != nil {
		t.Fatalf("the check fails: %v", err)
	}
	result, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("the check returns %s", state.Get(-1).Type())
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, of := range v {
			table.RawSetString(key, toLua(state, of))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, of := range v {
			table.Append(toLua(state, of))
		}
		return table
	case string:
		return lua.LString(v)
	case float64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}

// hostAs is a host with the status that its controller gives it.
func hostAs(change func(*infrav1.IngotHost, *lifecycle.Observation)) *infrav1.IngotHost {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc1", Name: "r1-01", UID: "1", Generation: 4}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://bmc", CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = "52:54:00:00:00:01", "net"
	host.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.NewTime(now.Add(-time.Hour))}
	seen := lifecycle.Observation{Now: now, NewID: "0d5b5f0e-6d9e-4b6e-9d5c-3a0c6c1f0a01", Power: infrav1.PowerStateOff, BMC: lifecycle.BMCOK, AddressRecorded: true}
	change(host, &seen)
	host.Status.ObservedGeneration = 4
	for _, c := range lifecycle.Conditions(host, seen, lifecycle.Next(host, seen, lifecycle.DefaultPolicy())) {
		conditions.Set(host, c)
	}
	return host
}

// conditioned is an object with the conditions, observed in its present generation.
func conditioned[T interface {
	client.Object
	conditions.Setter
}](object T, observed *int64, says ...metav1.Condition) T {
	object.SetGeneration(4)
	*observed = 4
	for _, c := range says {
		conditions.Set(object, c)
	}
	return object
}

func ready(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: infrav1.ReadyCondition, Status: status, Reason: reason, Message: "why"}
}

// Argo CD shows a host as healthy, at work, out of service on purpose, or in need of a person.
func TestArgoCDHealthOfHosts(t *testing.T) {
	script := healthChecks(t)["IngotHost"]
	claim := func(state infrav1.ClaimState) *infrav1.HostClaim {
		return &infrav1.HostClaim{MachineRef: infrav1.LocalReference{Name: "m"}, ClusterName: "c", InstanceID: "7c1d3f52-8a4c-4f0e-b6a1-2f9f0f6b7c02", State: state, Attempt: 1}
	}
	for name, tc := range map[string]struct {
		host *infrav1.IngotHost
		want string
	}{
		"new":       {&infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Progressing"},
		"available": {hostAs(func(*infrav1.IngotHost, *lifecycle.Observation) {}), "Healthy"},
		"in use": {hostAs(func(h *infrav1.IngotHost, seen *lifecycle.Observation) {
			h.Spec.Claim, seen.Power, seen.Machine = claim(infrav1.ClaimProvisioned), infrav1.PowerStateOn, lifecycle.MachineExists
		}), "Healthy"},
		"to be inspected": {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) { h.Spec.Record = nil }), "Progressing"},
		"being released": {hostAs(func(h *infrav1.IngotHost, seen *lifecycle.Observation) {
			h.Spec.Claim, seen.Power = claim(infrav1.ClaimReleasing), infrav1.PowerStateOn
		}), "Progressing"},
		"in maintenance": {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) { h.Spec.Maintenance = ptr.To(true) }), "Suspended"},
		"kept off":       {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) { h.Spec.Power = infrav1.PowerIntentOff }), "Suspended"},
		"without a BMC":  {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) { h.Spec.BMC = nil }), "Suspended"},
		"found on":       {hostAs(func(_ *infrav1.IngotHost, seen *lifecycle.Observation) { seen.Power = infrav1.PowerStateOn }), "Degraded"},
		"silent BMC":     {hostAs(func(_ *infrav1.IngotHost, seen *lifecycle.Observation) { seen.BMC = lifecycle.BMCUnreachable }), "Degraded"},
		"wrong password": {hostAs(func(_ *infrav1.IngotHost, seen *lifecycle.Observation) { seen.BMC = lifecycle.BMCUnauthorized }), "Degraded"},
		"a duplicate":    {hostAs(func(_ *infrav1.IngotHost, seen *lifecycle.Observation) { seen.DuplicateOf = "r1-02" }), "Degraded"},
		"in quarantine": {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) {
			h.Spec.Record.Quarantine = &infrav1.Quarantine{Reason: infrav1.QuarantineInstallFailed}
		}), "Degraded"},
		"changed just now": {hostAs(func(h *infrav1.IngotHost, _ *lifecycle.Observation) { h.Generation = 5 }), "Progressing"},
		"paused": {conditioned(&infrav1.IngotHost{}, new(int64), ready("True", "Available"),
			metav1.Condition{Type: infrav1.PausedCondition, Status: "True", Reason: "Paused", Message: "why"}), "Suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			got, message := health(t, script, tc.host)
			if got != tc.want || message == "" || message == "nil" {
				t.Errorf("%s %q, want %s; Ready is %+v", got, message, tc.want, conditions.Get(tc.host, infrav1.ReadyCondition))
			}
		})
	}
}

// The other kinds that have conditions.
func TestArgoCDHealth(t *testing.T) {
	checks := healthChecks(t)
	machine := func(provisioned bool, status metav1.ConditionStatus, reason string) *infrav1.IngotMachine {
		m := &infrav1.IngotMachine{}
		m.Status.Initialization.Provisioned = ptr.To(provisioned)
		return conditioned(m, &m.Status.ObservedGeneration, ready(status, reason))
	}
	cluster := func(status metav1.ConditionStatus, reason string) *infrav1.IngotCluster {
		c := &infrav1.IngotCluster{}
		return conditioned(c, &c.Status.ObservedGeneration, ready(status, reason))
	}
	image := func(status metav1.ConditionStatus, reason string) *infrav1.IngotImage {
		i := &infrav1.IngotImage{}
		return conditioned(i, &i.Status.ObservedGeneration, metav1.Condition{Type: infrav1.ImageReachableCondition, Status: status, Reason: reason, Message: "why"})
	}
	promise := func(status metav1.ConditionStatus, reason string) *infrav1.IngotReservation {
		r := &infrav1.IngotReservation{}
		return conditioned(r, &r.Status.ObservedGeneration, ready(status, reason))
	}
	deleted := machine(true, "False", infrav1.ReasonWaitingForFence)
	deleted.DeletionTimestamp = ptr.To(metav1.Unix(1, 0))
	foreign := &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Generation: 1, Annotations: map[string]string{clusterv1.ManagedByAnnotation: "terraform"}}}
	for name, tc := range map[string]struct {
		kind   string
		object client.Object
		want   string
	}{
		"new machine":           {"IngotMachine", &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Progressing"},
		"machine without host":  {"IngotMachine", machine(false, "False", infrav1.ReasonNoMatchingHost), "Progressing"},
		"machine in conflict":   {"IngotMachine", machine(false, "False", infrav1.ReasonFailureDomainConflict), "Degraded"},
		"machine that runs":     {"IngotMachine", machine(true, "True", infrav1.ReasonReady), "Healthy"},
		"machine that is off":   {"IngotMachine", machine(true, "False", infrav1.ReasonPoweredOff), "Degraded"},
		"machine, BMC silent":   {"IngotMachine", machine(true, "Unknown", infrav1.ReasonBMCTimeout), "Degraded"},
		"machine being deleted": {"IngotMachine", deleted, "Progressing"},
		"new cluster":           {"IngotCluster", &infrav1.IngotCluster{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Progressing"},
		"cluster":               {"IngotCluster", cluster("True", infrav1.ReasonReady), "Healthy"},
		"cluster, no endpoint":  {"IngotCluster", cluster("False", infrav1.ReasonWaitingForEndpoint), "Progressing"},
		"cluster of another":    {"IngotCluster", foreign, "Healthy"},
		"new image":             {"IngotImage", &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Progressing"},
		"image":                 {"IngotImage", image("True", infrav1.ReasonImageReachable), "Healthy"},
		"image that is gone":    {"IngotImage", image("False", infrav1.ReasonImageUnreachable), "Degraded"},
		"new reservation":       {"IngotReservation", &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Generation: 1}}, "Progressing"},
		"reservation":           {"IngotReservation", promise("True", infrav1.ReasonReservationSatisfied), "Healthy"},
		"reservation, short":    {"IngotReservation", promise("False", infrav1.ReasonInsufficientHosts), "Degraded"},
	} {
		t.Run(name, func(t *testing.T) {
			got, message := health(t, checks[tc.kind], tc.object)
			if got != tc.want || message == "" || message == "nil" {
				t.Errorf("%s %q, want %s", got, message, tc.want)
			}
		})
	}
}

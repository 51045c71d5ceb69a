// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

// hostSays sets power and conditions of a host.
func (s *site) hostSays(name string, power infrav1.PowerState, says ...metav1.Condition) {
	s.t.Helper()
	s.hostStatus(name, func(h *infrav1.IngotHost) {
		h.Status.Power = power
		for _, c := range says {
			conditions.Set(h, c)
		}
	})
}

func answers(status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: infrav1.HostBMCReachableCondition, Status: status, Reason: reason}
}

// nodeIs sets the Node health of the machine.
func (s *site) nodeIs(name string, healthy metav1.ConditionStatus) {
	s.t.Helper()
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key(name), owner))
	owner.Status.NodeRef.Name = name
	conditions.Set(owner, metav1.Condition{Type: clusterv1.MachineNodeHealthyCondition, Status: healthy, Reason: "Test"})
	s.must(s.api.Status().Update(s.ctx, owner))
}

// M27, M22: a server that stays off makes its machine not Ready and changes nothing else. When it
// is on again, the machine is Ready.
func testServerOff(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	s.hostSays("h", infrav1.PowerStateOn, answers(isTrue, infrav1.ReasonBMCResponding))
	s.settle("m")
	s.want("m", infrav1.MachineHostHealthyCondition, isTrue, infrav1.ReasonHealthOK, "")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	s.nodeIs("m", isUnknown)

	s.hostSays("h", infrav1.PowerStateOff)
	s.settle("m")
	s.want("m", infrav1.MachineHostHealthyCondition, isFalse, infrav1.ReasonPoweredOff, "spec.power of IngotHost h")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")
	if after := s.step("m").RequeueAfter; after <= 0 || after > 2*timing.Default().HostLost {
		t.Errorf("looks again after %s, and Ready changes after %s", after, timing.Default().HostLost)
	}
	s.clock.Step(2 * timing.Default().HostLost)
	m := s.settle("m")
	s.want("m", infrav1.ReadyCondition, isFalse, infrav1.ReasonPoweredOff, "The server is off")
	if !ptr.Deref(m.Status.Initialization.Provisioned, false) || failed(m) {
		t.Errorf("provisioned %+v, failed for good %t", m.Status.Initialization, failed(m))
	}
	s.hostSays("h", infrav1.PowerStateOn)
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "")

	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim = nil })
	if m := s.settle("m"); conditions.Get(m, infrav1.MachineHostHealthyCondition) != nil {
		t.Error("a machine without a host shows the health of one")
	}
}

// A dead BMC does not make the machine of a healthy Node not Ready: a rollout would stop.
func testUnreachableBMCWithHealthyNode(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	s.host("h", "")
	s.machine("m")
	s.provision("m")
	s.nodeIs("m", isTrue)
	s.hostSays("h", infrav1.PowerStateOn, answers(isFalse, infrav1.ReasonBMCUnreachable))
	s.settle("m")
	s.clock.Step(2 * timing.Default().HostLost)
	s.settle("m")
	s.want("m", infrav1.MachineHostHealthyCondition, isUnknown, infrav1.ReasonBMCUnreachable, "condition BMCReachable of IngotHost h")
	s.want("m", infrav1.ReadyCondition, isTrue, infrav1.ReasonReady, "cannot read the power state")
	s.nodeIs("m", isUnknown)
	s.settle("m")
	s.want("m", infrav1.ReadyCondition, isUnknown, infrav1.ReasonBMCUnreachable, "cannot read the power state")
}

func TestHostHealth(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	up := answers(isTrue, infrav1.ReasonBMCResponding)
	for name, tc := range map[string]struct {
		power  infrav1.PowerState
		says   []metav1.Condition
		change func(*infrav1.IngotHost)
		status metav1.ConditionStatus // empty: no message
		reason string
	}{
		"not read yet":           {power: infrav1.PowerStateOff},
		"on":                     {infrav1.PowerStateOn, []metav1.Condition{up}, nil, isTrue, infrav1.ReasonHealthOK},
		"power not known":        {"", []metav1.Condition{up}, nil, isTrue, infrav1.ReasonHealthOK},
		"off":                    {infrav1.PowerStateOff, []metav1.Condition{up}, nil, isFalse, infrav1.ReasonPoweredOff},
		"off when it was silent": {infrav1.PowerStateOff, []metav1.Condition{answers(isFalse, infrav1.ReasonBMCTimeout)}, nil, isUnknown, infrav1.ReasonBMCTimeout},
		"no CA":                  {infrav1.PowerStateOn, []metav1.Condition{answers(isUnknown, infrav1.ReasonCABundleMissing)}, nil, isUnknown, infrav1.ReasonCABundleMissing},
		"wrong password": {infrav1.PowerStateOn, []metav1.Condition{up,
			condition(infrav1.HostCredentialsValidCondition, isFalse, infrav1.ReasonCredentialsRejected)}, nil, isUnknown, infrav1.ReasonCredentialsRejected},
		"another server": {infrav1.PowerStateOff, []metav1.Condition{up, condition(infrav1.ReadyCondition, isFalse, infrav1.ReasonWrongServer)}, nil, isUnknown, infrav1.ReasonWrongServer},
		"being deleted":  {infrav1.PowerStateOn, []metav1.Condition{up, condition(infrav1.ReadyCondition, isFalse, infrav1.ReasonDeleting)}, nil, isTrue, infrav1.ReasonHealthOK},
		"a part fails":   {infrav1.PowerStateOn, []metav1.Condition{up, condition(infrav1.HostHealthyCondition, isFalse, infrav1.ReasonHealthCritical)}, nil, isTrue, infrav1.ReasonHealthCritical},
		"paused": {infrav1.PowerStateOff, []metav1.Condition{up}, func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, "", ""},
		"paused for a move": {infrav1.PowerStateOff, []metav1.Condition{up}, func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.MovePausedAnnotation: ""}
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: "host-of-rack-r1"}}
			host.Status.Power, host.Status.Conditions = tc.power, tc.says
			if tc.change != nil {
				tc.change(host)
			}
			got := hostHealth(host)
			if got == nil {
				got = &metav1.Condition{}
			}
			if got.Status != tc.status || got.Reason != tc.reason {
				t.Errorf("%s %s, want %s %s", got.Status, got.Reason, tc.status, tc.reason)
			}
			if got.Status != "" && got.Reason != infrav1.ReasonHealthOK && !strings.Contains(got.Message, host.Name) {
				t.Errorf("the message names no host: %q", got.Message)
			}
		})
	}
}

func TestReadiness(t *testing.T) {
	at := time.Unix(1_000_000, 0)
	w := timing.Default()
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(at)}
	}
	claimed := condition(infrav1.MachineHostClaimedCondition, isTrue, "HostClaimed", "")
	installed := condition(infrav1.MachineInstalledCondition, isTrue, "Installed", "")
	health := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{claimed, installed, condition(infrav1.MachineHostHealthyCondition, status, reason, "words")}
	}
	cutOff := append(health(isTrue, "HealthOK"), condition(infrav1.MachineBootedCondition, isFalse, "FirstBootInterrupted", "cut off"))
	off, silent := health(isFalse, "PoweredOff"), health(isUnknown, "BMCTimeout")
	joined := nodeState{joined: true}
	for name, tc := range map[string]struct {
		says            []metav1.Condition
		node            nodeState
		after           time.Duration
		status          metav1.ConditionStatus
		reason, message string
		again           time.Duration
	}{
		"nothing yet":               {nil, nodeState{}, 0, isUnknown, "InProgress", "", 0},
		"no host":                   {[]metav1.Condition{condition(infrav1.MachineHostClaimedCondition, isFalse, "NoMatchingHost", "why")}, nodeState{}, 0, isFalse, "NoMatchingHost", "why", 0},
		"claimed":                   {[]metav1.Condition{claimed}, nodeState{}, 0, isUnknown, "InProgress", "", 0},
		"installed":                 {[]metav1.Condition{claimed, installed}, nodeState{}, 0, isTrue, "Ready", "", 0},
		"a part fails":              {health(isTrue, "HealthCritical"), joined, time.Hour, isTrue, "Ready", "words", 0},
		"cut off, may join":         {cutOff, nodeState{}, 30 * time.Second, isTrue, "Ready", "", 90 * time.Second},
		"cut off":                   {cutOff, nodeState{}, 2 * time.Minute, isFalse, "FirstBootInterrupted", "cut off", 0},
		"off for a moment":          {off, joined, 4 * time.Minute, isTrue, "Ready", "", time.Minute},
		"off":                       {off, joined, 5 * time.Minute, isFalse, "PoweredOff", "words", 0},
		"off, before a Node joined": {off, nodeState{}, 5 * time.Minute, isFalse, "PoweredOff", "words", 0},
		"off, and its Node is well": {off, nodeState{joined: true, healthy: true}, time.Hour, isTrue, "Ready", "words", 5 * time.Minute},
		"silent for a moment":       {silent, joined, time.Minute, isTrue, "Ready", "", 4 * time.Minute},
		"silent":                    {silent, joined, 5 * time.Minute, isUnknown, "BMCTimeout", "words", 0},
		"silent before a Node":      {silent, nodeState{}, time.Hour, isTrue, "Ready", "words", 5 * time.Minute},
		"silent, its Node is well":  {silent, nodeState{joined: true, healthy: true}, time.Hour, isTrue, "Ready", "words", 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &infrav1.IngotMachine{}
			machine.Status.Conditions = tc.says
			got, again := readiness(machine, tc.node, at.Add(tc.after), w)
			if got.Status != tc.status || got.Reason != tc.reason || got.Message != tc.message || again != tc.again {
				t.Errorf("Ready is %s %s %q, again after %s; want %s %s %q, %s", got.Status, got.Reason, got.Message, again, tc.status, tc.reason, tc.message, tc.again)
			}
		})
	}
}

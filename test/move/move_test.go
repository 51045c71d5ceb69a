// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// phases are what the hosts are, before the move and after it.
func phases() map[string]infrav1.IngotHostPhase {
	return map[string]infrav1.IngotHostPhase{
		"free": infrav1.PhaseAvailable, "provisioned": infrav1.PhaseProvisioned, "releasing": infrav1.PhaseDeprovisioning,
		"inspecting": infrav1.PhaseInspecting, "quarantined": infrav1.PhaseQuarantined,
		pinned: infrav1.PhaseAvailable, pooled: infrav1.PhaseAvailable, updating: infrav1.PhasePreparing, rotating: infrav1.PhaseAvailable,
	}
}

// TestMove is I10 from the first word of clusterctl to the work that goes on, there
// and back.
func TestMove(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	planes := startPlanes(t, "first", "second")
	metal := newYard(t)
	for _, p := range planes {
		metal.namespaces(p)
	}
	metal.fill(planes[0])
	metal.pooled(planes[0])
	for _, p := range planes {
		p.run()
		metal.ipams[p.name] = p.provide()
	}
	planes[0].until("at rest", func() string { return atWork(planes[0]) })
	metal.beginHalfway(planes[0])
	metal.promise(planes[0])
	refused(t, planes[0], planes[1])
	takeAcross(t, metal, planes[0], planes[1])
	takeAcross(t, metal, planes[1], planes[0])
}

// refused: clusterctl moves no cluster with a machine that is being provisioned, and
// pauses nothing.
func refused(t *testing.T, source, target *plane) {
	t.Helper()
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m2"}}
	machine.Spec.ClusterName = "c1"
	machine.Spec.Bootstrap.DataSecretName = ptr.To("bootstrap")
	machine.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotMachine", Name: "m2"}
	source.create(machine)
	err := source.clusterctl().ObjectMover().Move(t.Context(), namespace, target.clusterctl(), false)
	if err == nil || !strings.Contains(err.Error(), "still provisioning the node") {
		t.Fatalf("move of a machine without a Node: %v", err)
	}
	if missing := atWork(source); missing != "" {
		t.Errorf("after the refusal: %s", missing)
	}
	if err := source.client.Delete(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
}

func takeAcross(t *testing.T, metal *yard, source, target *plane) {
	t.Helper()
	s := &story{t: t, source: source, target: target, metal: metal, before: source.hosts(), told: metal.actions(), chosen: metal.chosen(), pin: pinOf(source),
		promised: &infrav1.IngotReservation{}, first: source.name == "first"}
	source.get(s.promised, "c1")
	if err := source.clusterctl().ObjectMover().Move(t.Context(), namespace, target.clusterctl(), false, s.watch); err != nil {
		t.Fatalf("clusterctl move from %s: %v", source.name, err)
	}
	if !s.arrived {
		t.Fatal("the mover never came to the unpausing of the target")
	}
	s.goesOn()
	if diff := cmp.Diff(s.chosen, metal.chosen()); diff != "" {
		t.Errorf("providers have chosen addresses (-before +after):\n%s", diff)
	}
	s.promiseHolds()
	s.halfwayGoesOn()
	s.sourceIsEmpty()
	metal.clusterAPI(target)
}

// atWork says which host is not yet as its phase should be, unpaused and with
// block-move; the Secret belongs to all of them.
func atWork(p *plane) string {
	hosts := p.hosts()
	for name, phase := range phases() {
		host := hosts[name]
		if host == nil {
			return name + " is missing"
		}
		_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
		if host.Status.Phase != phase || !blocked || !conditions.IsFalse(host, infrav1.PausedCondition) {
			return fmt.Sprintf("%s: phase %q, block-move %t, conditions %+v", name, host.Status.Phase, blocked, host.Status.Conditions)
		}
	}
	if missing := poolHolds(p); missing != "" {
		return missing
	}
	return owned(p)
}

// story is one move, and what was so when it began.
type story struct {
	t              *testing.T
	source, target *plane
	metal          *yard
	before         map[string]*infrav1.IngotHost
	told           map[string][]string
	pin            *infrav1.PinnedBMC
	promised       *infrav1.IngotReservation
	// chosen are the addresses that the providers have chosen.
	chosen map[string][]string
	// first of two moves: only then something is half done.
	first, arrived bool
}

// watch is called with every object that the mover creates, and last, with a bare
// Cluster, just before it is unpaused on the target: all has arrived, and the source
// is empty.
func (s *story) watch(object *unstructured.Unstructured) error {
	if diff := cmp.Diff(s.told, s.metal.actions()); diff != "" {
		s.t.Errorf("a BMC was told something during the move, at %s %s:\n%s", object.GetKind(), object.GetName(), diff)
	}
	if object.GetKind() != "Cluster" || object.GetUID() != "" {
		return nil
	}
	s.arrived = true
	s.target.until("standing still", func() string {
		for name, host := range s.target.hosts() {
			if c := conditions.Get(host, infrav1.PausedCondition); c == nil || c.Status != metav1.ConditionTrue || c.Reason != infrav1.ReasonMovePaused {
				return fmt.Sprintf("%s: %+v", name, c)
			}
		}
		return ""
	})
	hosts := s.target.hosts()
	for name, was := range s.before {
		is := hosts[name]
		if is == nil {
			s.t.Errorf("host %s has not arrived", name)
			continue
		}
		if diff := cmp.Diff(was.Spec, is.Spec); diff != "" {
			s.t.Errorf("spec of %s (-before +after):\n%s", name, diff)
		}
		if diff := cmp.Diff(ofPeople(was.Annotations), ofPeople(is.Annotations)); diff != "" || !maps.Equal(was.Labels, is.Labels) {
			s.t.Errorf("annotations of %s (-before +after):\n%s", name, diff)
		}
		if is.UID == was.UID || len(is.Finalizers) == 0 {
			s.t.Errorf("%s: UID %s, finalizers %v", name, is.UID, is.Finalizers)
		}
	}
	s.carried()
	if diff := cmp.Diff(s.told, s.metal.actions()); diff != "" {
		s.t.Errorf("a BMC was told something before the target was unpaused:\n%s", diff)
	}
	return nil
}

// ofPeople leaves out the annotations that the move itself is made of.
func ofPeople(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, clusterctlv1.BlockMoveAnnotation)
	delete(out, infrav1.MovePausedAnnotation)
	return out
}

// restarted is what a BMC is told where an agent was cut off.
func restarted() []string { return []string{"Reset ForceOff", "Boot Once Pxe UEFI", "Reset On"} }

// goesOn: once unpaused the target rebuilds every status and takes up what was cut
// off, from power-off; nothing else is switched.
func (s *story) goesOn() {
	s.t.Helper()
	s.target.until("at work with every status rebuilt", func() string { return atWork(s.target) })
	s.target.until("done with what was cut off", func() string {
		for _, name := range []string{"releasing", "inspecting"} {
			if told := s.metal.actions()[name][len(s.told[name]):]; !slices.Equal(told, restarted()) {
				return fmt.Sprintf("%s: %q", name, told)
			}
		}
		return ""
	})
	hosts := s.target.hosts()
	for name, kind := range map[string]infrav1.OrderKind{"releasing": infrav1.OrderClean, "inspecting": infrav1.OrderInspect} {
		order := hosts[name].Spec.Order
		if order == nil || order.Kind != kind || order.HostUID != string(hosts[name].UID) || order.Attempt != 1 || order.AgentKey != "" {
			s.t.Errorf("order of %s: %+v, want a new one", name, order)
		}
	}
	for _, name := range []string{"free", "provisioned", "quarantined", pinned, pooled} {
		if diff := cmp.Diff(s.told[name], s.metal.actions()[name]); diff != "" {
			s.t.Errorf("BMC of %s was told something:\n%s", name, diff)
		}
		was, is := s.before[name], hosts[name]
		for _, c := range was.Status.Conditions {
			got := conditions.Get(is, c.Type)
			if got == nil || got.Status != c.Status || got.Reason != c.Reason || got.Message != c.Message {
				s.t.Errorf("condition %s of %s is %+v, was %+v", c.Type, name, got, c)
			}
		}
		if is.Status.Power != was.Status.Power || !cmp.Equal(is.Status.Hardware, was.Status.Hardware) {
			s.t.Errorf("status of %s is %+v, was %+v", name, is.Status, was.Status)
		}
	}
	facts := &infrav1.IngotHardware{}
	if !s.target.get(facts, "free") || facts.Spec.Address == nil || facts.Spec.Address.IP != "192.0.2.50" {
		s.t.Errorf("the recorded address has not arrived: %+v", facts.Spec)
	}
}

// sourceIsEmpty: what was moved is gone there, what is global, or its own, stays.
func (s *story) sourceIsEmpty() {
	s.t.Helper()
	s.caStays()
	for _, list := range []client.ObjectList{&infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotMachineList{}, &infrav1.IngotClusterList{}, &infrav1.IngotReservationList{},
		&clusterv1.ClusterList{}, &clusterv1.MachineList{}, &corev1.SecretList{}, &ipamv1.IPAddressClaimList{}, &ipamv1.IPAddressList{}} {
		if err := s.source.client.List(s.t.Context(), list, client.InNamespace(namespace)); err != nil {
			s.t.Fatal(err)
		}
		left, err := items(list)
		if err != nil || left != 0 {
			s.t.Errorf("%d objects of %T are left on the source (%v)", left, list, err)
		}
	}
	for _, p := range []*plane{s.source, s.target} {
		if err := p.client.Get(s.t.Context(), client.ObjectKey{Name: "net"}, &infrav1.IngotNetwork{}); err != nil {
			s.t.Errorf("%s: %v", p.name, err)
		}
	}
}

func items(list client.ObjectList) (int, error) {
	objects, err := meta.ExtractList(list)
	return len(objects), err
}

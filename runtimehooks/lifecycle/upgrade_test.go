// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/runtimehooks/mutation"
)

// populated returns three control plane machines and two workers of c1 with hosts.
func populated() []client.Object {
	var out []client.Object
	for i := range 3 {
		out = append(out, holding(machineOf(fmt.Sprintf("cp-%d", i), ""), fmt.Sprintf("c%d", i)))
	}
	return append(out, holding(machineOf("w-0", "md-0"), "w0"), holding(machineOf("w-1", "md-0"), "w1"))
}

// reserved returns a reservation of c1.
func reserved(purpose infrav1.ReservationPurpose, controlPlane, workers int32) *infrav1.IngotReservation {
	return &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c1"}, Spec: infrav1.IngotReservationSpec{
		State: infrav1.ReservationReserved, Purpose: purpose, Groups: []infrav1.ReservedGroup{
			{Name: controlPlaneGroup, ControlPlane: ptr.To(true), Count: controlPlane}, {Name: "md-0", Count: workers},
		},
	}}
}

// An upgrade reserves as many hosts as the Cluster has, and one more for a surge. It is idempotent.
func TestUpgradeReservation(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []client.Object
		// want counts the control planes and workers of the first request, granted those of the
		// successful one.
		want, granted []int
		held          string
	}{
		"no surge":                       {append(rollout(0, 0), populated()...), []int{3, 2}, []int{3, 2}, ""},
		"a surge":                        {append(append(rollout(1, 0), populated()...), free(1, nil)...), []int{4, 2}, []int{4, 2}, ""},
		"asked again":                    {append(append(rollout(1, 0), append(populated(), reserved(infrav1.ReservationUpgrade, 4, 2))...), free(1, nil)...), []int{4, 2}, []int{4, 2}, ""},
		"both surge, one is spare":       {append(append(rollout(1, 1), populated()...), free(1, nil)...), []int{4, 3}, []int{3, 2}, ""},
		"a worker that is to come":       {append(append(rollout(0, 0), append(populated(), reserved("", 3, 3))...), free(1, nil)...), []int{3, 3}, []int{3, 3}, ""},
		"a worker that cannot come":      {append(rollout(0, 0), append(populated(), reserved("", 3, 3))...), []int{3, 3}, []int{3, 2}, ""},
		"of more than the topology says": {append(append(rollout(0, 0), append(populated(), reserved("", 9, 9))...), free(9, nil)...), []int{3, 3}, []int{3, 3}, ""},
		"no host for the surge":          {append(rollout(1, 0), populated()...), nil, nil, "creates a machine before it deletes one"},
		"nothing is there":               {nil, []int{}, []int{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tc.objects...)
			c := cluster("ingot", 3, isBuilt)
			c.Spec.Topology.ControlPlane.Replicas = ptr.To[int32](3)
			var answer runtimehooksv1.BeforeClusterUpgradeResponse
			s.beforeClusterUpgrade(t.Context(), &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *c, ToKubernetesVersion: "v1.37.0"}, &answer)
			holds(t, &answer, tc.held)
			counts := func(r allocation.PlanRequest) []int {
				out := []int{}
				for _, g := range r.Demand.Groups {
					if g.Count > 0 {
						out = append(out, g.Count)
					}
				}
				return out
			}
			if tc.want == nil {
				if len(s.planner.asked) > 0 {
					t.Errorf("a held upgrade requested %+v", s.planner.asked)
				}
				return
			}
			if diff := cmp.Diff([][]int{tc.want, tc.granted}, [][]int{counts(s.planner.asked[0]), counts(s.planner.asked[len(s.planner.asked)-1])}); diff != "" {
				t.Errorf("first request and reservation (-want +got):\n%s", diff)
			}
		})
	}
}

// Workers that an autoscaler scaled up from zero need images and keep their hosts, like others.
func TestUpgradeOfWorkersScaledFromZero(t *testing.T) {
	scaled := func(c *clusterv1.Cluster) {
		workers := &c.Spec.Topology.Workers.MachineDeployments[0]
		workers.Replicas = nil
		workers.Metadata.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "0", clusterv1.AutoscalerMaxSizeAnnotation: "5"}
	}
	onARM := with(variable("ingotWorkerHostSelector", `{"architecture":"arm64"}`))
	amd64, arm64 := image("v1.37.0", "amd64"), image("v1.37.0", "arm64")
	for name, tc := range map[string]struct {
		class   string
		objects []client.Object
		edits   []func(*clusterv1.Cluster)
		held    string
		// workers is the number of reserved workers.
		workers int
	}{
		"no image for those to come": {"ingot-runtime", append(rollout(0, 0), amd64), []func(*clusterv1.Cluster){scaled, onARM}, "no IngotImage for Kubernetes v1.37.0 on arm64", 0},
		"an image of each":           {"ingot-runtime", append(rollout(0, 0), amd64, arm64), []func(*clusterv1.Cluster){scaled, onARM}, "", 0},
		"two were made":              {"ingot", append(rollout(0, 0), populated()...), []func(*clusterv1.Cluster){scaled}, "", 2},
		"two, and a surge":           {"ingot", append(rollout(0, 1), populated()...), []func(*clusterv1.Cluster){scaled}, "machine deployment md-0 lacks 1 of 1", 0},
		"none was made, and a surge": {"ingot", rollout(0, 1), []func(*clusterv1.Cluster){scaled}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tc.objects...)
			var answer runtimehooksv1.BeforeClusterUpgradeResponse
			s.beforeClusterUpgrade(t.Context(), &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *cluster(tc.class, 0, append(tc.edits, isBuilt)...), ToKubernetesVersion: "v1.37.0"}, &answer)
			holds(t, &answer, tc.held)
			workers := 0
			for _, asked := range s.planner.asked {
				for _, g := range asked.Demand.Groups {
					if g.Name == "md-0" {
						workers = g.Count
					}
				}
			}
			if workers != tc.workers {
				t.Errorf("%d workers have a reservation, want %d", workers, tc.workers)
			}
		})
	}
}

// Concurrent reservations hold an upgrade, and an unavailable API server fails it.
func TestUpgradeReservationFails(t *testing.T) {
	for err, want := range map[error]string{errContendedTest: contended, errors.New("dial 192.0.2.1: secret"): ""} {
		s := newSite(t, append(rollout(0, 0), populated()...)...)
		s.planner.err = err
		var answer runtimehooksv1.BeforeWorkersUpgradeResponse
		s.beforeWorkersUpgrade(t.Context(), &runtimehooksv1.BeforeWorkersUpgradeRequest{Cluster: *cluster("ingot", 2, isBuilt), ToKubernetesVersion: "v1.37.0"}, &answer)
		if want != "" {
			holds(t, &answer, want)
		} else if answer.Status != failure || answer.Message != errInventory.Error() {
			t.Errorf("%s: %q", answer.Status, answer.Message)
		}
	}
}

// The surge of a group follows the topology and its class, which may change with the version, before
// the existing objects.
func TestSurgeFollowsTopology(t *testing.T) {
	strategy := func(most int) clusterv1.MachineDeploymentTopologyRolloutStrategy {
		out := clusterv1.MachineDeploymentTopologyRolloutStrategy{Type: clusterv1.RollingUpdateMachineDeploymentStrategyType}
		out.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt(most))
		return out
	}
	inTopology := func(most int) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) {
			c.Spec.Topology.Workers.MachineDeployments[0].Rollout.Strategy = strategy(most)
		}
	}
	ofClass := func(most int) client.Object {
		c := class("rolling", false)
		c.Spec.Workers.MachineDeployments[0].Rollout.Strategy = clusterv1.MachineDeploymentClassRolloutStrategy{Type: clusterv1.RollingUpdateMachineDeploymentStrategyType}
		c.Spec.Workers.MachineDeployments[0].Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt(most))
		c.Spec.ControlPlane.TemplateRef = clusterv1.ClusterClassTemplateReference{APIVersion: controlplanev1.GroupVersion.String(), Kind: "KubeadmControlPlaneTemplate", Name: "new"}
		return c
	}
	clonedFrom := func(name string, objects []client.Object) []client.Object {
		objects[0].SetAnnotations(map[string]string{clusterv1.TemplateClonedFromNameAnnotation: name})
		return objects
	}
	surging := &controlplanev1.KubeadmControlPlaneTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "new"}}
	surging.Spec.Template.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = ptr.To(intstr.FromInt(1))
	none := func(*clusterv1.Cluster) {}
	for name, tc := range map[string]struct {
		class   string
		objects []client.Object
		edit    func(*clusterv1.Cluster)
		want    string
	}{
		"as it is":                           {"ingot", rollout(0, 0), none, ""},
		"the topology begins to":             {"ingot", rollout(0, 0), inTopology(1), "machine deployment md-0"},
		"the topology ceases to":             {"ingot", rollout(0, 1), inTopology(0), ""},
		"its class begins to":                {"rolling", append(clonedFrom("new", rollout(0, 0)), ofClass(1)), none, "machine deployment md-0"},
		"the topology before its class":      {"rolling", append(clonedFrom("new", rollout(0, 1)), ofClass(1)), inTopology(0), ""},
		"another control plane, that surges": {"rolling", append(clonedFrom("old", rollout(0, 0)), ofClass(0), surging), none, "the control plane lacks 1"},
		"the same control plane":             {"rolling", append(clonedFrom("new", rollout(0, 0)), ofClass(0), surging), none, ""},
		"another one that is not there":      {"rolling", append(clonedFrom("old", rollout(0, 0)), ofClass(0)), none, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tc.objects...)
			var answer runtimehooksv1.BeforeClusterUpgradeResponse
			s.beforeClusterUpgrade(t.Context(), &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *cluster(tc.class, 2, isBuilt, tc.edit), ToKubernetesVersion: "v1.37.0"}, &answer)
			holds(t, &answer, tc.want)
		})
	}
}

// An upgrade needs images of the operating system that the machines run.
func TestUpgradeKeepsOS(t *testing.T) {
	template := func(image string, labels map[string]string) client.Object {
		m := &infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "made-" + image, Labels: map[string]string{
			clusterv1.ClusterNameLabel: "c1", clusterv1.ClusterTopologyOwnedLabel: "",
		}}}
		for key, value := range labels {
			m.Labels[key] = value
		}
		m.Spec.Template.Spec.ImageRef = &infrav1.ImageReference{Name: image}
		return m
	}
	flatcar := ofSystem("flatcar", image("v1.36.1", "amd64"))
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"both systems":         {[]client.Object{image("v1.37.0", "amd64"), ofSystem("flatcar", image("v1.37.0", "amd64"))}, ""},
		"the other one's only": {[]client.Object{image("v1.37.0", "amd64")}, "no IngotImage for Kubernetes v1.37.0 on amd64 with flatcar"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(append(rollout(0, 0), flatcar, template(flatcar.Name, nil)), tc.objects...)...)
			var answer runtimehooksv1.BeforeClusterUpgradeResponse
			s.beforeClusterUpgrade(t.Context(), &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: *cluster("ingot-runtime", 2, isBuilt), ToKubernetesVersion: "v1.37.0"}, &answer)
			holds(t, &answer, tc.want)
		})
	}
}

// In the class ingot-runtime the variable replaces the template's selector, even if it is empty.
// Other classes keep the template's.
func TestControlPlaneSelectorIsPatched(t *testing.T) {
	labelled := &infrav1.IngotClusterTemplate{}
	labelled.Spec.Template.Spec.ControlPlaneSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"class": "small"}}
	for name, tc := range map[string]struct {
		usesCatalog bool
		variable    string
		want        string
	}{
		"the template's":            {false, "", "class=small"},
		"without labels":            {false, `{"architecture":"amd64"}`, "class=small"},
		"the variable's":            {false, `{"matchLabels":{"class":"big"}}`, "class=big"},
		"patched, no variable":      {true, "", ""},
		"patched, without labels":   {true, `{"architecture":"amd64"}`, ""},
		"patched by the variable's": {true, `{"matchLabels":{"class":"big"}}`, "class=big"},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster("x", 1)
			if tc.variable != "" {
				name := "controlPlaneHostSelector"
				if tc.usesCatalog {
					name = mutation.VariableControlPlaneHosts
				}
				c = cluster("x", 1, with(variable(name, tc.variable)))
			}
			selector := requirementsOf(c, Blueprint{Class: class("x", tc.usesCatalog), ClusterTemplate: labelled}).Cluster.ControlPlaneSelector
			if got := metav1.FormatLabelSelector(selector); strings.TrimPrefix(got, "<none>") != tc.want {
				t.Errorf("selects %q, want %q", got, tc.want)
			}
		})
	}
}

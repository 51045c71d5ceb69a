// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	capiadmission "sigs.k8s.io/cluster-api/core/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

const success, failure = runtimehooksv1.ResponseStatusSuccess, runtimehooksv1.ResponseStatusFailure

// tooManyGroups is the API server's error about a reservation with too many groups.
var tooManyGroups = apierrors.NewInvalid(infrav1.GroupVersion.WithKind("IngotReservation").GroupKind(), "c1", field.ErrorList{
	field.TooMany(field.NewPath("spec", "groups"), 129, 128), field.Invalid(nil, nil, "some validation rules were not checked"),
})

// A Cluster waits for hosts and images. Repeated calls get the same answer.
func TestBeforeClusterCreate(t *testing.T) {
	rack := func(name string) map[string]string { return map[string]string{infrav1.RackLabel: name} }
	inRack := func(c *clusterv1.Cluster) { c.Spec.Topology.Workers.MachineDeployments[0].FailureDomain = "r2" }
	for name, tc := range map[string]struct {
		objects []client.Object
		cluster *clusterv1.Cluster
		err     error
		status  runtimehooksv1.ResponseStatus
		held    string
		message string
	}{
		"enough":                        {objects: free(3, nil), cluster: cluster("ingot", 2), status: success},
		"one is missing":                {objects: free(2, nil), cluster: cluster("ingot", 2), status: success, held: "1 host is missing: machine deployment md-0 lacks 1 of 2 hosts"},
		"none":                          {cluster: cluster("ingot", 2), status: success, held: "3 hosts are missing"},
		"of the rack":                   {objects: free(3, rack("r1")), cluster: cluster("ingot", 2, inRack), status: success, held: "lacks 2 of 2 hosts in failure domain r2"},
		"in the rack":                   {objects: free(3, rack("r2")), cluster: cluster("ingot", 2, inRack), status: success},
		"without the labels":            {objects: free(3, nil), cluster: cluster("ingot", 0, with(variable("controlPlaneHostSelector", `{"matchLabels":{"class":"small"}}`))), status: success, held: "the control plane lacks 1 of 1 hosts"},
		"with the labels":               {objects: free(1, map[string]string{"class": "small"}), cluster: cluster("ingot", 0, with(variable("controlPlaneHostSelector", `{"matchLabels":{"class":"small"}}`))), status: success},
		"of another architecture":       {objects: append(free(1, nil), image("v1.36.1", "arm64"), image("v1.36.1", "amd64")), cluster: cluster("ingot-runtime", 0, with(variable("ingotControlPlaneHostSelector", `{"architecture":"arm64"}`))), status: success, held: "1 host is missing"},
		"no image":                      {objects: free(3, nil), cluster: cluster("ingot-runtime", 2), status: success, held: "no IngotImage for Kubernetes v1.36.1 on amd64; add one to the catalog"},
		"with the image":                {objects: append(free(3, nil), image("v1.36.1", "amd64")), cluster: cluster("ingot-runtime", 2), status: success},
		"images of two systems":         {objects: append(free(3, nil), image("v1.36.1", "amd64"), ofSystem("flatcar", image("v1.36.1", "amd64"))), cluster: cluster("ingot-runtime", 2), status: success, held: "IngotImages of several operating systems for Kubernetes v1.36.1 on amd64: flatcar, os; set the variable ingotOS"},
		"of two systems, one asked for": {objects: append(free(3, nil), image("v1.36.1", "amd64"), ofSystem("flatcar", image("v1.36.1", "amd64"))), cluster: cluster("ingot-runtime", 2, with(variable("ingotOS", `"os"`))), status: success},
		"an image of another version":   {objects: append(free(3, nil), image("v1.36.2", "amd64")), cluster: cluster("ingot-runtime", 2), status: success, held: "v1.36.1"},
		"a hosted control plane":        {objects: append(free(2, nil), image("v1.36.1", "amd64")), cluster: cluster("hosted", 2), status: success},
		"workers beside a hosted one":   {objects: append(free(1, nil), image("v1.36.1", "amd64")), cluster: cluster("hosted", 2), status: success, held: "1 host is missing: machine deployment md-0"},
		"another provider's workers":    {objects: append(free(1, nil), image("v1.36.1", "amd64")), cluster: cluster("mixed", 2), status: success},
		"no machine to begin with":      {objects: []client.Object{image("v1.36.1", "amd64")}, cluster: cluster("hosted", 0), status: success},
		"none, and no image for more":   {cluster: cluster("hosted", 0), status: success, held: "no IngotImage for Kubernetes v1.36.1 on amd64"},
		"nothing of Ingot's machines":   {cluster: cluster("foreign", 2), status: success},
		"another provider's class":      {cluster: cluster("docker", 2), err: errors.New("unexpected call of the planner"), status: success},
		"another provider's":            {cluster: cluster("ingot", 2, ofAnother), err: errors.New("unexpected call of the planner"), status: success},
		"no class": {cluster: cluster("none", 2), err: errors.New("unexpected call of the planner"), status: failure,
			message: "ClusterClass dc1/none does not exist; create it, or correct spec.topology.classRef"},
		"a variable that cannot be read": {cluster: cluster("ingot-runtime", 2, with(variable("ingotWorkerHostSelector", `{"secret":1}`))), status: failure,
			message: "the value of variable ingotWorkerHostSelector does not match its schema"},
		"no topology":            {cluster: &clusterv1.Cluster{}, err: errors.New("unexpected call of the planner"), status: success},
		"at the same time":       {cluster: cluster("ingot", 2), err: fmt.Errorf("reserve: %w", errContendedTest), status: success, held: contended},
		"the API server is away": {cluster: cluster("ingot", 2), err: errors.New("dial 192.0.2.1: secret"), status: failure, message: errInventory.Error()},
		"more groups than a reservation allows": {cluster: cluster("ingot", 2), err: fmt.Errorf("reserve: %w", tooManyGroups), status: failure,
			message: "Ingot cannot create the IngotReservation for this topology: spec.groups: Too many: 129: must have at most 128 items"},
		"a selector of nonsense": {cluster: cluster("ingot", 2), err: fmt.Errorf("%w: hostSelector", allocation.ErrSelectorInvalid), status: failure, message: "invalid selector: hostSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tc.objects...)
			s.planner.err = tc.err
			var first runtimehooksv1.BeforeClusterCreateResponse
			for i := range 2 {
				var answer runtimehooksv1.BeforeClusterCreateResponse
				s.beforeClusterCreate(t.Context(), &runtimehooksv1.BeforeClusterCreateRequest{Cluster: *tc.cluster.DeepCopy()}, &answer)
				if i == 0 {
					first = answer
				}
				if diff := cmp.Diff(first, answer); diff != "" {
					t.Errorf("the second answer differs: %s", diff)
				}
				wait := int32(0)
				if tc.held != "" {
					wait = RetryAfterSeconds
				}
				if answer.Status != tc.status || answer.RetryAfterSeconds != wait || !strings.Contains(answer.Message, tc.held) || tc.held == "" && answer.Message != tc.message {
					t.Errorf("%s, %d s: %q", answer.Status, answer.RetryAfterSeconds, answer.Message)
				}
			}
		})
	}
}

// The reservation contains the topology's demand.
func TestDemandOfATopology(t *testing.T) {
	s := newSite(t, append(free(9, nil), image("v1.36.1", "amd64"), image("v1.36.1", "arm64"))...)
	c := cluster("ingot-runtime", 2, with(
		variable("ingotControlPlaneHostSelector", `{"architecture":"arm64","matchLabels":{"class":"small"}}`), variable("ingotWorkerHostSelector", `{"matchLabels":{"class":"big"}}`),
		variable("failureDomainLabel", `"row"`),
		variable("controlPlaneRootDeviceHints", `{"minSize":"400G"}`), variable("workerSoftwareRAID", `{"level":"RAID1"}`), variable("workerRootDeviceHints", `{}`),
		variable("workerNetworkData", `{"ethernets":[{"name":"lan0","nic":{"position":2}}]}`)))
	gpu := clusterv1.MachineDeploymentTopology{Class: "default-worker", Name: "gpu", FailureDomain: "r1"}
	gpu.Variables.Overrides = []clusterv1.ClusterVariable{variable("ingotWorkerHostSelector", `{"matchLabels":{"class":"gpu"}}`),
		variable("workerSoftwareRAID", `{}`), variable("workerNetworkData", `{}`)}
	scaled := clusterv1.MachineDeploymentTopology{Class: "default-worker", Name: "scaled"}
	scaled.Metadata.Annotations = map[string]string{clusterv1.AutoscalerMinSizeAnnotation: "4", clusterv1.AutoscalerMaxSizeAnnotation: "9"}
	unknown := clusterv1.MachineDeploymentTopology{Class: "unknown", Name: "unknown"}
	c.Spec.Topology.Workers.MachineDeployments = append(c.Spec.Topology.Workers.MachineDeployments, gpu, scaled, unknown)
	_, err := s.decideCreate(t.Context(), c)
	check(t, err)
	selector := func(class string) infrav1.IngotMachineSpec {
		return infrav1.IngotMachineSpec{HostSelector: &infrav1.HostSelector{MatchLabels: map[string]string{"class": class}}}
	}
	small, big := selector("small"), selector("big")
	small.HostSelector.Architecture = "arm64"
	small.RootDeviceHints = &infrav1.RootDeviceHints{MinSize: new(resource.MustParse("400G"))}
	big.SoftwareRAID = &infrav1.SoftwareRAID{Level: infrav1.SoftwareRAIDLevel1}
	big.NetworkData = &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "lan0", NIC: infrav1.NICSelector{Position: new(int32(2))}}}}
	want := allocation.PlanRequest{
		Namespace: namespace, ClusterName: "c1",
		Cluster: infrav1.IngotClusterSpec{FailureDomainLabel: "row", ControlPlaneSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"class": "small"}}},
		Demand: allocation.Demand{Groups: []allocation.DemandGroup{
			{Name: controlPlaneGroup, ControlPlane: true, Count: 1, Template: small, Architecture: "arm64"},
			{Name: "md-0", Count: 2, Template: big, Architecture: "amd64"},
			{Name: "gpu", Count: 1, Template: selector("gpu"), Architecture: "amd64", FailureDomains: []string{"r1"}},
			{Name: "scaled", Count: 4, Template: big, Architecture: "amd64"},
		}},
	}
	if diff := cmp.Diff([]allocation.PlanRequest{want}, s.planner.asked); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// Live systems need no image of the catalog, but hosts of the class's architecture.
func TestLiveSystemsNeedNoImage(t *testing.T) {
	live := &infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "worker"}}
	live.Spec.Template.Spec.Live = &infrav1.LiveSystem{CommandLine: "c={dataURL}"}
	b := Blueprint{Class: class("ingot-runtime", true), Machines: map[string]*infrav1.IngotMachineTemplate{"worker": live}}
	want := requirementsOf(cluster("ingot-runtime", 2), b)
	ask := func(groups []Group) []string { return missingImages(nil, groups, []string{"v1.36.1"}) }
	if len(want.Groups) != 2 || len(ask(want.Groups[:1])) != 1 || len(ask(want.Groups[1:])) != 0 {
		t.Errorf("the groups lack %q and %q", ask(want.Groups[:1]), ask(want.Groups[1:]))
	}
	if got := Demand(want.Groups, nil).Groups[1].Architecture; got != "amd64" {
		t.Errorf("hosts of architecture %q are asked for", got)
	}
}

// Without replicas in the topology, the count equals Cluster API's default.
func TestReplicas(t *testing.T) {
	const least, most = clusterv1.AutoscalerMinSizeAnnotation, clusterv1.AutoscalerMaxSizeAnnotation
	for name, tc := range map[string]struct {
		asked           *int32
		topology, class map[string]string
		want            int
	}{
		"as asked":                       {asked: new(int32(0)), topology: map[string]string{least: "4", most: "9"}, want: 0},
		"nothing is said":                {want: 1},
		"both sizes":                     {topology: map[string]string{least: "4", most: "9"}, want: 4},
		"none to begin with":             {topology: map[string]string{least: "0", most: "9"}, want: 0},
		"the least size alone":           {topology: map[string]string{least: "4"}, want: 1},
		"the greatest size alone":        {topology: map[string]string{most: "9"}, want: 1},
		"sizes of the class":             {class: map[string]string{least: "4", most: "9"}, want: 4},
		"one of each":                    {topology: map[string]string{least: "4"}, class: map[string]string{most: "9"}, want: 4},
		"the topology before the class":  {topology: map[string]string{least: "2"}, class: map[string]string{least: "4", most: "9"}, want: 2},
		"no number: Cluster API refuses": {topology: map[string]string{least: "some", most: "9"}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster("ingot", 0)
			c.Spec.Topology.Workers.MachineDeployments[0].Replicas = tc.asked
			c.Spec.Topology.Workers.MachineDeployments[0].Metadata.Annotations = tc.topology
			blue := class("ingot", false)
			blue.Spec.Workers.MachineDeployments[0].Metadata.Annotations = tc.class
			got := 0
			for _, g := range requirementsOf(c, Blueprint{Class: blue}).Groups {
				if g.Name == "md-0" {
					got = g.Count
				}
			}
			if got != tc.want {
				t.Errorf("%d machines are counted, want %d", got, tc.want)
			}
			made, err := clusterAPIReplicas(tc.asked, tc.class, tc.topology)
			if refused := tc.topology[least] == "some"; refused != (err != nil) || !refused && made != tc.want {
				t.Errorf("Cluster API makes %d machines (%v), want %d", made, err, tc.want)
			}
		})
	}
}

// clusterAPIReplicas returns the default of Cluster API's webhook for a MachineDeployment. Annotations
// of the topology override those of the class.
func clusterAPIReplicas(asked *int32, class, topology map[string]string) (int, error) {
	deployment := &clusterv1.MachineDeployment{Spec: clusterv1.MachineDeploymentSpec{Replicas: asked}}
	deployment.Annotations = map[string]string{}
	maps.Copy(deployment.Annotations, class)
	maps.Copy(deployment.Annotations, topology)
	ctx := admission.NewContextWithRequest(context.Background(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create}})
	err := (&capiadmission.MachineDeployment{}).Default(ctx, deployment)
	return int(ptr.Deref(deployment.Spec.Replicas, -1)), err
}

// A variable with the same name but another schema belongs to another class.
func TestVariablesOfOthers(t *testing.T) {
	want := requirementsOf(cluster("ingot", 1, with(variable("workerHostSelector", `"blue"`), variable("failureDomainLabel", `7`))), Blueprint{Class: class("ingot", false)})
	if len(want.Groups) != 2 || want.Groups[1].Spec.HostSelector != nil || want.Cluster.FailureDomainLabel != "" {
		t.Errorf("%+v", want)
	}
}

// An upgrade waits while it would get stuck.
func TestBeforeUpgrades(t *testing.T) {
	images := []client.Object{image("v1.36.1", "amd64"), image("v1.37.0", "amd64")}
	claimed := func(name, machine string, reachable metav1.ConditionStatus) client.Object {
		return &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:   infrav1.IngotHostSpec{Claim: &infrav1.HostClaim{ClusterName: "c1", MachineRef: infrav1.LocalReference{Name: machine}, State: infrav1.ClaimProvisioned}},
			Status: infrav1.IngotHostStatus{Conditions: []metav1.Condition{{Type: infrav1.HostBMCReachableCondition, Status: reachable}}}}
	}
	controlPlane, worker, going := machineOf("cp-1", ""), machineOf("w", "md-0"), machineOf("w", "md-0")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(5, 0)}, []string{"test/hold"}
	all := func(lists ...[]client.Object) []client.Object {
		var out []client.Object
		for _, list := range lists {
			out = append(out, list...)
		}
		return out
	}
	anyway := func(value string) []func(*clusterv1.Cluster) {
		return []func(*clusterv1.Cluster){func(c *clusterv1.Cluster) {
			c.Annotations, c.Spec.Topology.Version = map[string]string{infrav1.UpgradeAnywayAnnotation: value}, "v1.37.0"
		}}
	}
	for name, tc := range map[string]struct {
		class                          string
		objects                        []client.Object
		all, controlPlane, workersHeld string
		edits                          []func(*clusterv1.Cluster)
	}{
		"no surge, images":        {class: "ingot-runtime", objects: all(rollout(0, 0), images)},
		"surge, a host":           {class: "ingot-runtime", objects: all(rollout(1, 1), images, free(1, nil))},
		"surge, no host":          {class: "ingot-runtime", objects: all(rollout(1, 0), images), all: "the upgrade creates a machine before it deletes one: 1 host is missing: the control plane", controlPlane: "creates a machine before"},
		"workers surge":           {class: "ingot-runtime", objects: all(rollout(0, 1), images), all: "machine deployment md-0", workersHeld: "machine deployment md-0 lacks 1 of 1 hosts"},
		"no image":                {class: "ingot-runtime", objects: rollout(0, 0), all: "no IngotImage for Kubernetes v1.37.0 on amd64; add one to the catalog", controlPlane: "v1.37.0", workersHeld: "v1.37.0"},
		"inline image":            {class: "ingot", objects: rollout(0, 0)},
		"a silent BMC":            {class: "ingot", objects: all(rollout(0, 0), []client.Object{controlPlane, worker, claimed("h9", "cp-1", "False"), claimed("h8", "w", "True")}), all: "the BMCs of hosts h9 do not answer", controlPlane: "hosts h9 do"},
		"a silent worker":         {class: "ingot", objects: all(rollout(0, 0), []client.Object{worker, claimed("h8", "w", "False")}), all: "hosts h8", workersHeld: "hosts h8"},
		"a silent one given up":   {class: "ingot", objects: all(rollout(0, 0), []client.Object{claimed("h8", "gone", "False")})},
		"a silent one that goes":  {class: "ingot", objects: all(rollout(0, 0), []client.Object{going, claimed("h8", "w", "False")})},
		"a BMC not asked yet":     {class: "ingot", objects: all(rollout(0, 0), []client.Object{worker, claimed("h8", "w", "Unknown")})},
		"nothing there yet":       {class: "ingot", objects: nil},
		"many silent BMCs":        {class: "ingot", objects: all(rollout(0, 0), []client.Object{worker, claimed("a", "w", "False"), claimed("b", "w", "False"), claimed("c", "w", "False"), claimed("d", "w", "False"), claimed("e", "w", "False"), claimed("f", "w", "False")}), all: "hosts a, b, c, d, e and 1 more do", workersHeld: "and 1 more"},
		"class of another":        {class: "docker"},
		"image for a way only":    {class: "ingot-runtime", objects: all(rollout(0, 0), images[:1]), all: "v1.37.0", controlPlane: "v1.37.0", workersHeld: "v1.37.0"},
		"without a spare, anyway": {class: "ingot-runtime", objects: all(rollout(1, 1), images), edits: anyway("v1.37.0")},
		"a silent BMC, anyway":    {class: "ingot", objects: all(rollout(0, 0), []client.Object{controlPlane, claimed("h9", "cp-1", "False")}), edits: anyway(" 1.37.0")},
		"consent to the last one": {class: "ingot", objects: all(rollout(0, 0), []client.Object{controlPlane, claimed("h9", "cp-1", "False")}), edits: anyway("v1.36.1"), all: "hosts h9", controlPlane: "hosts h9"},
		"consent without version": {class: "ingot", objects: all(rollout(0, 0), []client.Object{controlPlane, claimed("h9", "cp-1", "False")}), edits: anyway(""), all: "hosts h9", controlPlane: "hosts h9"},
		"not anyway":              {class: "ingot", objects: all(rollout(0, 0), []client.Object{controlPlane, claimed("h9", "cp-1", "False")}), edits: anyway("false"), all: "; to upgrade anyway, run: kubectl annotate --overwrite cluster -n dc1 c1 ingot.infrastructure.cluster.x-k8s.io/upgrade-anyway=v1.37.0", controlPlane: "to upgrade anyway"},
		"no image, anyway":        {class: "ingot-runtime", objects: rollout(0, 0), edits: anyway("v1.37.0"), all: "v1.37.0", controlPlane: "v1.37.0", workersHeld: "v1.37.0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, tc.objects...)
			c := *cluster(tc.class, 2, append(tc.edits, isBuilt)...)
			steps := []runtimehooksv1.UpgradeStepInfo{{Version: "v1.37.0"}}
			var whole runtimehooksv1.BeforeClusterUpgradeResponse
			s.beforeClusterUpgrade(t.Context(), &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: c, FromKubernetesVersion: "v1.36.1", ToKubernetesVersion: "v1.37.0", ControlPlaneUpgrades: steps, WorkersUpgrades: steps}, &whole)
			holds(t, &whole, tc.all)
			var cp runtimehooksv1.BeforeControlPlaneUpgradeResponse
			s.beforeControlPlaneUpgrade(t.Context(), &runtimehooksv1.BeforeControlPlaneUpgradeRequest{Cluster: c, ToKubernetesVersion: "v1.37.0"}, &cp)
			holds(t, &cp, tc.controlPlane)
			var workers runtimehooksv1.BeforeWorkersUpgradeResponse
			s.beforeWorkersUpgrade(t.Context(), &runtimehooksv1.BeforeWorkersUpgradeRequest{Cluster: c, ToKubernetesVersion: "v1.37.0"}, &workers)
			holds(t, &workers, tc.workersHeld)
			for _, asked := range s.planner.asked {
				if asked.Purpose != infrav1.ReservationUpgrade || asked.Surge {
					t.Errorf("an upgrade asks for %+v", asked)
				}
			}
		})
	}
}

func holds(t *testing.T, answer runtimehooksv1.RetryResponseObject, want string) {
	t.Helper()
	wait := int32(0)
	if want != "" {
		wait = RetryAfterSeconds
	}
	if answer.GetStatus() != success || answer.GetRetryAfterSeconds() != wait || !strings.Contains(answer.GetMessage(), want) || want == "" && answer.GetMessage() != "" {
		t.Errorf("%T: %s, %d s: %q, want %q", answer, answer.GetStatus(), answer.GetRetryAfterSeconds(), answer.GetMessage(), want)
	}
}

func TestBeforeClusterDelete(t *testing.T) {
	retained := func(value string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { c.Annotations = map[string]string{infrav1.RetainAnnotation: value} }
	}
	for name, tc := range map[string]struct {
		edits []func(*clusterv1.Cluster)
		held  bool
	}{
		"free":               {[]func(*clusterv1.Cluster){isBuilt}, false},
		"retained":           {[]func(*clusterv1.Cluster){isBuilt, retained("")}, true},
		"retained, why":      {[]func(*clusterv1.Cluster){isBuilt, retained("ask Ann")}, true},
		"not retained":       {[]func(*clusterv1.Cluster){isBuilt, retained("false")}, false},
		"another provider's": {[]func(*clusterv1.Cluster){ofAnother, retained("")}, false},
		"never built":        {[]func(*clusterv1.Cluster){retained("")}, false},
	} {
		var answer runtimehooksv1.BeforeClusterDeleteResponse
		newSite(t).beforeClusterDelete(t.Context(), &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: *cluster("ingot", 1, tc.edits...)}, &answer)
		want := ""
		if tc.held {
			want = "kubectl annotate cluster -n dc1 c1 ingot.infrastructure.cluster.x-k8s.io/retain-"
		}
		t.Run(name, func(t *testing.T) { holds(t, &answer, want) })
	}
}

// The After hooks record events for Ingot's Clusters, and never hold.
func TestAfter(t *testing.T) {
	for _, edit := range []func(*clusterv1.Cluster){isBuilt, ofAnother} {
		s := newSite(t)
		c := *cluster("ingot", 1, edit)
		var a runtimehooksv1.AfterControlPlaneInitializedResponse
		s.afterControlPlaneInitialized(t.Context(), &runtimehooksv1.AfterControlPlaneInitializedRequest{Cluster: c}, &a)
		var b runtimehooksv1.AfterControlPlaneUpgradeResponse
		s.afterControlPlaneUpgrade(t.Context(), &runtimehooksv1.AfterControlPlaneUpgradeRequest{Cluster: c, KubernetesVersion: "v1.37.0"}, &b)
		var d runtimehooksv1.AfterWorkersUpgradeResponse
		s.afterWorkersUpgrade(t.Context(), &runtimehooksv1.AfterWorkersUpgradeRequest{Cluster: c, KubernetesVersion: "v1.37.0"}, &d)
		var e runtimehooksv1.AfterClusterUpgradeResponse
		s.afterClusterUpgrade(t.Context(), &runtimehooksv1.AfterClusterUpgradeRequest{Cluster: c, KubernetesVersion: "v1.37.0"}, &e)
		for _, answer := range []runtimehooksv1.RetryResponseObject{&b, &d, &e} {
			holds(t, answer, "")
		}
		want := 4
		if c.Spec.InfrastructureRef.Kind != kindCluster {
			want = 0
		}
		if a.Status != success || len(s.events.Events) != want || len(s.planner.finished) != want/4 {
			t.Errorf("%s, %d events, want %d; finished upgrades: %v", a.Status, len(s.events.Events), want, s.planner.finished)
		}
	}
}

// A reservation that cannot be removed is a failure, so that Cluster API retries. The response has no
// retry interval (L08).
func TestAfterClusterUpgradeFails(t *testing.T) {
	s := newSite(t)
	ask := func() (answer runtimehooksv1.AfterClusterUpgradeResponse) {
		s.afterClusterUpgrade(t.Context(), &runtimehooksv1.AfterClusterUpgradeRequest{Cluster: *cluster("ingot", 1, isBuilt), KubernetesVersion: "v1.37.0"}, &answer)
		return answer
	}
	s.planner.err = errors.New("dial 192.0.2.1: secret")
	if a := ask(); a.Status != failure || a.RetryAfterSeconds != 0 || a.Message != errInventory.Error() || len(s.events.Events) != 0 {
		t.Errorf("%s, %d s, %q and %d events", a.Status, a.RetryAfterSeconds, a.Message, len(s.events.Events))
	}
	s.planner.err = nil
	if a := ask(); a.Status != success || a.RetryAfterSeconds != 0 || len(s.events.Events) != 1 || len(s.planner.finished) != 2 {
		t.Errorf("retry: %s, %d s, %d events, finished %d times", a.Status, a.RetryAfterSeconds, len(s.events.Events), len(s.planner.finished))
	}
}

// A plan does not require the image of the target version: without a plan Cluster API does not
// reconcile the topology at all, while BeforeClusterUpgrade holds only the upgrade.
func TestGenerateUpgradePlan(t *testing.T) {
	images := func(versions ...string) []client.Object {
		var out []client.Object
		for _, v := range versions {
			out = append(out, image(v, "amd64"))
		}
		return out
	}
	for name, tc := range map[string]struct {
		class    string
		edit     func(*clusterv1.Cluster)
		objects  []client.Object
		from, to string
		want     []string
		fails    string
	}{
		"one step":                  {"ingot-runtime", isBuilt, images("v1.37.1"), "v1.36.1", "v1.37.1", []string{"v1.37.1"}, ""},
		"a patch":                   {"ingot-runtime", isBuilt, images("v1.36.3"), "v1.36.1", "v1.36.3", []string{"v1.36.3"}, ""},
		"by the newest of each":     {"ingot-runtime", isBuilt, images("v1.37.0", "v1.37.10", "v1.37.9", "v1.38.0-rc.1", "v1.38.0", "v1.39.1"), "v1.36.1", "v1.39.1", []string{"v1.37.10", "v1.38.0", "v1.39.1"}, ""},
		"a minor without an image":  {"ingot-runtime", isBuilt, images("v1.37.0", "v1.39.1"), "v1.36.1", "v1.39.1", nil, "needs an image for v1.38"},
		"the last without an image": {"ingot-runtime", isBuilt, images("v1.37.0"), "v1.36.1", "v1.38.0", []string{"v1.37.0", "v1.38.0"}, ""},
		"of another architecture":   {"ingot-runtime", isBuilt, []client.Object{image("v1.37.0", "arm64")}, "v1.36.1", "v1.37.0", []string{"v1.37.0"}, ""},
		"a way of another one":      {"ingot-runtime", isBuilt, []client.Object{image("v1.37.0", "arm64")}, "v1.36.1", "v1.38.0", nil, "needs an image for v1.37"},
		"workers only":              {"ingot-runtime", isBuilt, nil, "v1.36.1", "v1.36.1", nil, ""},
		"back":                      {"ingot-runtime", isBuilt, images("v1.35.0"), "v1.36.1", "v1.35.0", nil, "does not downgrade"},
		"another major":             {"ingot-runtime", isBuilt, images("v2.0.0"), "v1.36.1", "v2.0.0", nil, "major"},
		"no version":                {"ingot-runtime", isBuilt, nil, "one", "v1.35.0", nil, `"one" is not a semantic version`},
		"no version to go to":       {"ingot-runtime", isBuilt, nil, "v1.36.1", "two", nil, `"two" is not a semantic version`},
		"inline image":              {"ingot", isBuilt, nil, "v1.36.1", "v1.37.0", []string{"v1.37.0"}, ""},
		"another provider's":        {"ingot-runtime", ofAnother, nil, "v1.36.1", "v1.37.0", []string{"v1.37.0"}, ""},
		"another's, workers only":   {"ingot-runtime", ofAnother, nil, "v1.37.0", "v1.37.0", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var answer runtimehooksv1.GenerateUpgradePlanResponse
			newSite(t, tc.objects...).generateUpgradePlan(t.Context(), &runtimehooksv1.GenerateUpgradePlanRequest{
				Cluster: *cluster(tc.class, 1, tc.edit), FromControlPlaneKubernetesVersion: tc.from, ToKubernetesVersion: tc.to,
			}, &answer)
			var got []string
			for _, step := range answer.ControlPlaneUpgrades {
				got = append(got, step.Version)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || (answer.Status == failure) != (tc.fails != "") || !strings.Contains(answer.Message, tc.fails) {
				t.Errorf("%s %q: %s", answer.Status, answer.Message, diff)
			}
		})
	}
}

// Handler names are DNS labels. Only the hooks that just record events have the policy Ignore.
func TestHandlers(t *testing.T) {
	for _, h := range Handlers(newSite(t).Options) {
		want := runtimehooksv1.FailurePolicyFail
		if strings.HasPrefix(h.Name, "after-") && h.Name != "after-cluster-upgrade" {
			want = runtimehooksv1.FailurePolicyIgnore
		}
		if len(validation.IsDNS1123Label(h.Name)) > 0 || *h.FailurePolicy != want || *h.TimeoutSeconds != 10 {
			t.Errorf("%s: %s, %d s", h.Name, *h.FailurePolicy, *h.TimeoutSeconds)
		}
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package template

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func meta(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: name, Labels: labels}
}

// host is a server with its hardware.
func host(name string, labels map[string]string, threads int32, memory int64, arch string) []client.Object {
	h := &infrav1.IngotHost{ObjectMeta: meta(name, labels)}
	h.Spec.BMC = &infrav1.BMC{Address: "redfish://" + name}
	facts := &infrav1.IngotHardware{ObjectMeta: meta(name, nil)}
	facts.Spec.Architecture, facts.Spec.MemoryBytes, facts.Spec.CPU.Threads = arch, memory, threads
	facts.Spec.Disks = []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](500e9)}}
	return []client.Object{h, facts}
}

// M65: the minimum of the selectable hosts; unchanged while paused or moved. M43, M44: both pauses,
// in the conditions of both contracts.
func TestCapacity(t *testing.T) {
	capacity := func(cpus, bytes int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
	}
	big, small := map[string]string{"size": "big"}, map[string]string{"size": "small"}
	inventory := append(host("b", big, 64, 1<<38, "amd64"), host("s", small, 8, 1<<34, "amd64")...)
	owned := func(m *infrav1.IngotMachineTemplate) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: "u"}}
	}
	cluster := func(paused bool) []client.Object {
		c := &clusterv1.Cluster{ObjectMeta: meta("c", nil)}
		c.Spec.Paused = ptr.To(paused)
		c.Spec.InfrastructureRef.Name = "c"
		own := &infrav1.IngotCluster{ObjectMeta: meta("c", nil)}
		own.Spec.HostSelector = &metav1.LabelSelector{MatchLabels: big}
		return []client.Object{c, own}
	}
	image := &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "i"}, Spec: infrav1.IngotImageSpec{Architecture: "arm64"}}
	naming := func(m *infrav1.IngotMachineTemplate) {
		m.Spec.Template.Spec.ImageRef = &infrav1.ImageReference{Name: "i"}
	}
	linux := func(arch string) infrav1.NodeInfo {
		return infrav1.NodeInfo{Architecture: arch, OperatingSystem: "linux"}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		change  func(*infrav1.IngotMachineTemplate)
		want    infrav1.IngotMachineTemplateStatus
		// paused is the status of the condition; empty means False.
		paused metav1.ConditionStatus
		// untouched: nothing is written at all.
		untouched bool
	}{
		"any host": {objects: inventory, want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(8, 1<<34), NodeInfo: linux("amd64")}},
		"by its selector": {objects: inventory, change: func(m *infrav1.IngotMachineTemplate) {
			m.Spec.Template.Spec.HostSelector = &infrav1.HostSelector{MatchLabels: big}
		}, want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(64, 1<<38), NodeInfo: linux("amd64")}},
		"by the cluster's selector": {objects: append(cluster(false), inventory...), change: owned,
			want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(64, 1<<38), NodeInfo: linux("amd64")}},
		"several architectures": {objects: append(host("a", small, 16, 1<<35, "arm64"), inventory...),
			want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(8, 1<<34), NodeInfo: linux("")}},
		"of the image's architecture": {objects: append(append(host("a", small, 16, 1<<35, "arm64"), inventory...), image), change: naming,
			want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(16, 1<<35), NodeInfo: linux("arm64")}},
		"of an image that is not there": {objects: inventory, change: naming, want: infrav1.IngotMachineTemplateStatus{Capacity: capacity(8, 1<<34), NodeInfo: linux("amd64")}},
		"only what is known": {objects: host("u", nil, 0, 1<<34, "amd64"), want: infrav1.IngotMachineTemplateStatus{
			Capacity: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(1<<34, resource.BinarySI)}, NodeInfo: linux("amd64")}},
		"no host":        {},
		"paused cluster": {objects: append(cluster(true), inventory...), change: owned, paused: metav1.ConditionTrue},
		"paused": {objects: inventory, paused: metav1.ConditionTrue, change: func(m *infrav1.IngotMachineTemplate) {
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}},
		"another manager's": {objects: inventory, untouched: true, change: func(m *infrav1.IngotMachineTemplate) {
			m.Labels = map[string]string{clusterv1.WatchLabel: "theirs"}
		}},
		"moved": {objects: inventory, untouched: true, change: func(m *infrav1.IngotMachineTemplate) {
			m.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		}},
		"a selector that is wrong": {objects: inventory, change: func(m *infrav1.IngotMachineTemplate) {
			m.Spec.Template.Spec.HostSelector = &infrav1.HostSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			template := &infrav1.IngotMachineTemplate{ObjectMeta: meta("t", nil)}
			if tc.change != nil {
				tc.change(template)
			}
			if tc.paused == "" && !tc.untouched {
				tc.paused = metav1.ConditionFalse
			}
			writes := 0
			c := newClient(t, &writes, append([]client.Object{template}, tc.objects...)...)
			r := &Reconciler{Client: c}
			if template.Labels != nil {
				r.WatchFilterValue = "mine"
			}
			for range 4 {
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)}); err != nil {
					t.Fatal(err)
				}
			}
			got := &infrav1.IngotMachineTemplate{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(template), got); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(tc.want.Capacity, got.Status.Capacity) || tc.want.NodeInfo != got.Status.NodeInfo {
				t.Errorf("status (-want +got):\n%s", cmp.Diff(tc.want, got.Status))
			}
			shown, old := conditions.Get(got, infrav1.PausedCondition), v1beta1conditions.Get(got, infrav1.PausedCondition)
			switch {
			case tc.untouched:
				if shown != nil || old != nil || writes != 0 {
					t.Errorf("touched: %+v, %d writes", got.Status, writes)
				}
			case shown == nil || shown.Status != tc.paused || old == nil || string(old.Status) != string(tc.paused):
				t.Errorf("Paused = %+v, in contract v1beta1 %+v, want %s", shown, old, tc.paused)
			}
			settled := writes
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(template)}); err != nil || writes != settled {
				t.Errorf("at rest: %d writes, error %v", writes-settled, err)
			}
		})
	}
}

func TestGone(t *testing.T) {
	writes := 0
	r := &Reconciler{Client: newClient(t, &writes)}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "n", Name: "t"}}); err != nil {
		t.Error(err)
	}
}

func newClient(t *testing.T, writes *int, objects ...client.Object) client.Client {
	t.Helper()
	scheme := testscheme.Scheme(t)
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&infrav1.IngotMachineTemplate{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			*writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		}}).Build()
}

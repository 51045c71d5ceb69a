// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// movable is one object of each kind, as full as it gets.
func movable() []string {
	return []string{"ingothost-maximal", "ingothardware-maximal", "ingotnetwork-maximal", "ingotmachine-maximal",
		"ingotmachinetemplate-maximal", "ingotcluster-maximal", "ingotclustertemplate-maximal"}
}

// testMoved does what clusterctl move does to every kind, to copies of the objects:
// create in the target, update there when the move is begun again, mark in the
// source, delete, take the finalizers away.
func (s *server) testMoved(t *testing.T) {
	for _, base := range movable() {
		t.Run(base, func(t *testing.T) {
			mover := s.people[restorerUser]
			object := s.copyOf(t, base)
			object.SetFinalizers([]string{"example.com/held"})
			if err := mover.Create(t.Context(), object.DeepCopy()); err != nil {
				t.Fatalf("create: %v", err)
			}
			again := object.DeepCopy()
			key := client.ObjectKeyFromObject(object)
			target := object.DeepCopy()
			if err := mover.Get(t.Context(), key, target); err != nil {
				t.Fatal(err)
			}
			again.SetUID(target.GetUID())
			again.SetResourceVersion(target.GetResourceVersion())
			if err := mover.Update(t.Context(), again); err != nil {
				t.Errorf("a move that is begun again: %v", err)
			}
			mark := `{"metadata":{"annotations":{"` + clusterctlv1.DeleteForMoveAnnotation + `":""}}}`
			if err := mover.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(mark))); err != nil {
				t.Fatalf("mark: %v", err)
			}
			if err := mover.Delete(t.Context(), object.DeepCopy()); err != nil {
				t.Fatalf("delete: %v", err)
			}
			if err := mover.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
				t.Fatalf("take the finalizers away: %v", err)
			}
			if err := mover.Get(t.Context(), key, target); !apierrors.IsNotFound(err) {
				t.Errorf("is still there: %v", err)
			}
		})
	}
}

// testMovedTooEarly: what only clusterctl does is refused while a Cluster of the namespace is not
// paused: neither the mark nor, with a mark from before, the deletion, in whatever way it is asked
// for.
func (s *server) testMovedTooEarly(t *testing.T) {
	const annotation = "metadata.annotations[" + clusterctlv1.DeleteForMoveAnnotation + "]"
	admin := s.people["admin"]
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "not-paused"},
		Spec: clusterv1.ClusterSpec{Paused: new(false), InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "IngotCluster", Name: "c1"}}}
	mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+clusterctlv1.DeleteForMoveAnnotation+`":""}}}`))
	host := s.copyOf(t, "ingothost-maximal")
	if err := s.people[restorerUser].Create(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	if err := admin.Patch(t.Context(), host, mark); err != nil {
		t.Fatalf("mark while there is no Cluster: %v", err)
	}
	if err := admin.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the webhooks' cache holds the Cluster", func() bool {
		return s.cache.Get(t.Context(), client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{}) == nil
	})
	refusals := map[string]error{}
	refusals["mark"] = admin.Patch(t.Context(), readValid(t, "ingothost-maximal"), mark)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		refusals["delete, "+string(policy)] = admin.Delete(t.Context(), host, client.PropagationPolicy(policy))
	}
	for what, err := range refusals {
		if err == nil {
			t.Errorf("%s: was accepted", what)
			continue
		}
		checkWords(t, testCase{Field: annotation}, host, err.Error())
		if !strings.Contains(err.Error(), "Cluster not-paused is not paused; remove the annotation") {
			t.Errorf("%s: %v", what, err)
		}
	}
	cluster.Spec.Paused = new(true)
	if err := admin.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the host can go once the Cluster is paused", func() bool {
		return client.IgnoreNotFound(admin.Delete(t.Context(), host, client.PropagationPolicy(metav1.DeletePropagationForeground))) == nil
	})
	if err := admin.Delete(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
}

// copyOf is a valid object under another name that is in nobody's way.
func (s *server) copyOf(t *testing.T, base string) *unstructured.Unstructured {
	t.Helper()
	object := readValid(t, base)
	object.SetName("copy")
	change := map[string]any{}
	switch object.GetKind() {
	case "IngotHost":
		change = map[string]any{"spec.bootMACAddress": "52:54:00:00:00:c0", "spec.bmc.address": "redfish://10.99.0.1"}
	case "IngotNetwork":
		change = map[string]any{"spec.subnet": "10.88.0.0/24", "spec.range.start": "10.88.0.10", "spec.range.end": "10.88.0.99", "spec.gateway": "10.88.0.1"}
	}
	testCase{Set: change}.apply(t, object)
	return object
}

// testUntouched: what has nothing to do with a spec is nobody's business here.
func (s *server) testUntouched(t *testing.T) {
	operator := s.people[operatorUser]
	for _, base := range movable() {
		t.Run(base, func(t *testing.T) {
			object := readValid(t, base)
			patch := `{"metadata":{"labels":{"touched":"yes"},"finalizers":["example.com/held"],` +
				`"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"y"}]}}`
			if err := operator.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll); err != nil {
				t.Errorf("labels, finalizers and owners: %v", err)
			}
		})
	}
	// A status is not looked at, and nothing of a spec gets in with it.
	for _, base := range []string{"ingothost-maximal", "ingotmachine-maximal", "ingotmachinetemplate-maximal", "ingotcluster-maximal"} {
		t.Run(base+"/status", func(t *testing.T) {
			object := readValid(t, base)
			if err := operator.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			before, _ := get(object.DeepCopy().Object, []any{"spec"})
			for _, gone := range []string{"spec.claim", "spec.providerID", "spec.failureDomainLabel"} {
				if _, ok := get(object.Object, segments(gone)); ok {
					testCase{Remove: []string{gone}}.apply(t, object)
				}
			}
			if err := operator.Status().Update(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatalf("a status: %v", err)
			}
			after, _ := get(object.Object, []any{"spec"})
			equal(t, "spec after a write of the status", before, after)
		})
	}
}

// testDeletedTogether: kubectl delete --all asks for each.
func (s *server) testDeletedTogether(t *testing.T) {
	err := s.people[operatorUser].DeleteAllOf(t.Context(), &v1beta2.IngotHost{}, client.InNamespace("default"), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "this IngotMachine of cluster c1 uses the host") {
		t.Errorf("all hosts were deleted: %v", err)
	}
}

// testImpersonated: who may impersonate the manager is the manager, which is why
// trust.md says to give that verb to nobody; whoever is only like it is not.
func (s *server) testImpersonated(t *testing.T) {
	for _, user := range []string{"system:serviceaccount:ingot-boot-system:ingot-boot", "system:serviceaccount:other:ingot-controller-manager",
		"ingot-controller-manager", managerUser + " ", strings.ToUpper(managerUser)} {
		who := s.newClient(t, user, []string{"system:masters", "system:serviceaccounts:ingot-system"})
		object := readValid(t, "ingothost-maximal")
		err := who.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claim":{"state":"Releasing"}}}`)), client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "spec.claim.state") {
			t.Errorf("%q changed a claim: %v", user, err)
		}
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// failingReader fails every Get.
type failingReader struct{ client.Reader }

func (failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no answer")
}

// I7: an IngotMachine with an existing Machine cannot be deleted. All other deletions are allowed.
func TestMachineDelete(t *testing.T) {
	machine := func(owner metav1.OwnerReference) *v1beta2.IngotMachine {
		return &v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", OwnerReferences: []metav1.OwnerReference{owner}}}
	}
	ref := func(group, kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: group + "/v1beta1", Kind: kind, Name: name}
	}
	owned := func(name string) *v1beta2.IngotMachine {
		return machine(ref(clusterv1.GroupVersion.Group, "Machine", name))
	}
	moved, again := owned("lives"), owned("lives")
	moved.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	again.DeletionTimestamp = new(metav1.Now())
	lives := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lives"}}
	lives.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: v1beta2.GroupVersion.Group, Kind: "IngotMachine", Name: "m"}
	copied := owned("lives")
	copied.Name = "copied"
	dies := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "dies", Finalizers: []string{clusterv1.MachineFinalizer}}}
	active := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c1"}}
	reader := newReader(t, lives, dies)
	if err := reader.Delete(t.Context(), dies); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		machine   *v1beta2.IngotMachine
		live      client.Reader
		wantField string
	}{
		{"its Machine lives", owned("lives"), reader, "metadata.ownerReferences"},
		{"by Cluster API, after the hooks", owned("dies"), reader, ""},
		{"its Machine is gone: garbage collection", owned("gone"), reader, ""},
		{"its Machine was never made: clean-up by a MachineSet", machine(ref(clusterv1.GroupVersion.Group, "MachineSet", "lives")), reader, ""},
		{"copied from the one that its Machine refers to", copied, reader, ""},
		{"another group's Machine", machine(ref("example.com", "Machine", "lives")), reader, ""},
		{"nobody's", &v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}, reader, ""},
		{"moved", moved, reader, ""},
		{"moved, a Cluster is not paused", moved, newReader(t, lives, active), "metadata.annotations[" + clusterctlv1.DeleteForMoveAnnotation + "]"},
		{"being deleted already", again, reader, ""},
		{"the Machine cannot be read", owned("lives"), failingReader{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&machineValidator{live: tt.live}).ValidateDelete(request(t.Context(), "somebody"), tt.machine)
			checkRefusal(t, err, tt.wantField)
		})
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package objecthistory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/objecthistory"
)

func TestHistory(t *testing.T) {
	c, err := client.NewWithWatch(envtest.Start(t), client.Options{Scheme: scheme.Scheme})
	must(t, err)
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"n": "0"}}
		must(t, c.Create(t.Context(), obj))
		return obj
	}
	create("before")

	ctx, cancel := context.WithCancel(t.Context())
	untyped := &unstructured.UnstructuredList{}
	untyped.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "SecretList"})
	h, err := objecthistory.Record(ctx, c, objecthistory.Options{Namespace: "default", Kinds: []client.ObjectList{&corev1.ConfigMapList{}, untyped}})
	must(t, err)
	obj := create("a")
	must(t, c.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}))
	for n := range 3 {
		obj.Data["n"] = fmt.Sprint(n + 1)
		must(t, c.Update(t.Context(), obj))
	}
	must(t, c.Delete(t.Context(), obj))
	create("last")
	bounded, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	must(t, h.Settle(bounded))

	versions, err := h.Versions()
	must(t, err)
	var got []string
	last := uint64(0)
	for _, v := range versions {
		if v.Revision < last || v.At.IsZero() {
			t.Errorf("revision %d after %d, at %v", v.Revision, last, v.At)
		}
		last = v.Revision
		text := v.Object.GetName()
		if m, ok := v.Object.(*corev1.ConfigMap); ok {
			text += " " + m.Data["n"]
		}
		if v.Deleted {
			text += " deleted"
		}
		if v.First {
			text += " first"
		}
		got = append(got, text)
	}
	want := []string{"before 0 first", "a 0", "s", "a 1", "a 2", "a 3", "a 3 deleted", "last 0"}
	// The API server writes a ConfigMap of its own into each namespace.
	got = without(got, "kube-root-ca.crt")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	nobody := &unstructured.UnstructuredList{}
	nobody.SetGroupVersionKind(schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "NobodyList"})
	if _, err := objecthistory.Record(ctx, c, objecthistory.Options{Kinds: []client.ObjectList{nobody}}); err == nil {
		t.Error("a kind that does not exist is recorded")
	}
	cancel()
	h.Wait()
	if err := h.Settle(ctx); err == nil {
		t.Error("settled after its end")
	}
}

func without(all []string, name string) []string {
	var kept []string
	for _, text := range all {
		if len(text) < len(name) || text[:len(name)] != name {
			kept = append(kept, text)
		}
	}
	return kept
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeutil_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/ingot-metal/ingot/internal/kubeutil"
)

func TestFindReturnsNilForAMissingObject(t *testing.T) {
	there := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "there"}}
	broken := errors.New("broken")
	reader := fake.NewClientBuilder().WithObjects(there).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "broken" {
				return broken
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	if got, err := kubeutil.Find[corev1.Secret](t.Context(), reader, "n", "there"); err != nil || got == nil || got.Name != "there" {
		t.Errorf("Find = %v, %v", got, err)
	}
	if got, err := kubeutil.Find[corev1.Secret](t.Context(), reader, "n", "missing"); err != nil || got != nil {
		t.Errorf("Find of a missing object = %v, %v", got, err)
	}
	if got, err := kubeutil.Find[corev1.Secret](t.Context(), reader, "n", "broken"); got != nil || !errors.Is(err, broken) || !strings.Contains(err.Error(), "read Secret n/broken") {
		t.Errorf("Find with a broken API server = %v, %v", got, err)
	}
}

func TestOnUpdatePassesChangesOnly(t *testing.T) {
	p := kubeutil.OnUpdate(func(before, after *corev1.Secret) bool { return before.Type != after.Type })
	a, b := &corev1.Secret{}, &corev1.Secret{Type: corev1.SecretTypeOpaque}
	if !p.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: b}) || p.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: a}) ||
		p.Update(event.UpdateEvent{ObjectOld: a, ObjectNew: &corev1.Pod{}}) || !p.Create(event.CreateEvent{Object: a}) || !p.Delete(event.DeleteEvent{Object: a}) {
		t.Error("OnUpdate must pass changes, creations and deletions, and no other update")
	}
}

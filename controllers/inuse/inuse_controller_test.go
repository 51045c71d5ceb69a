// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inuse

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	testkinds "github.com/ingot-metal/ingot/test/testscheme"
)

func hostNamed(name, credentials string, ca *infrav1.CABundleReference) *infrav1.IngotHost {
	return &infrav1.IngotHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name), Finalizers: []string{infrav1.HostFinalizer}},
		Spec:       infrav1.IngotHostSpec{BMC: &infrav1.BMC{CredentialsRef: infrav1.LocalReference{Name: credentials}, CABundleRef: ca}},
	}
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "n", Name: name, Finalizers: []string{infrav1.InUseFinalizer}}
}

func TestHeldUntilTheLastHostIsForgotten(t *testing.T) {
	caSecret := &infrav1.CABundleReference{Name: "ca", Kind: infrav1.CABundleSecret}
	caMap := &infrav1.CABundleReference{Name: "ca", Kind: infrav1.CABundleConfigMap}
	owned := func(uid types.UID) metav1.ObjectMeta {
		m := meta("a")
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "a", UID: uid, Controller: ptr.To(true)}}
		return m
	}
	forgotten := func(h *infrav1.IngotHost) *infrav1.IngotHost {
		h.DeletionTimestamp, h.Finalizers = ptr.To(metav1.Now()), []string{metav1.FinalizerDeleteDependents}
		return h
	}
	leaving := func(h *infrav1.IngotHost) *infrav1.IngotHost {
		h.DeletionTimestamp = ptr.To(metav1.Now())
		return h
	}
	for name, tc := range map[string]struct {
		kind   int
		object client.Object
		hosts  []client.Object
		keep   bool
	}{
		"credentials":                          {1, &corev1.Secret{ObjectMeta: meta("bmc")}, []client.Object{hostNamed("a", "bmc", nil)}, true},
		"credentials, host is being deleted":   {1, &corev1.Secret{ObjectMeta: meta("bmc")}, []client.Object{leaving(hostNamed("a", "bmc", nil))}, true},
		"credentials, one of two is forgotten": {1, &corev1.Secret{ObjectMeta: meta("bmc")}, []client.Object{forgotten(hostNamed("a", "bmc", nil)), hostNamed("b", "bmc", nil)}, true},
		"credentials, both are forgotten":      {1, &corev1.Secret{ObjectMeta: meta("bmc")}, []client.Object{forgotten(hostNamed("a", "bmc", nil)), forgotten(hostNamed("b", "bmc", nil))}, false},
		"credentials, no host":                 {1, &corev1.Secret{ObjectMeta: meta("bmc")}, nil, false},
		"a CA":                                 {1, &corev1.Secret{ObjectMeta: meta("ca")}, []client.Object{hostNamed("a", "bmc", caSecret)}, true},
		"a CA of the other kind":               {1, &corev1.Secret{ObjectMeta: meta("ca")}, []client.Object{hostNamed("a", "bmc", caMap)}, false},
		"a CA in a ConfigMap":                  {2, &corev1.ConfigMap{ObjectMeta: meta("ca")}, []client.Object{hostNamed("a", "bmc", caMap)}, true},
		"a CA in a ConfigMap, forgotten":       {2, &corev1.ConfigMap{ObjectMeta: meta("ca")}, []client.Object{forgotten(hostNamed("a", "bmc", caMap))}, false},
		"facts":                                {0, &infrav1.IngotHardware{ObjectMeta: owned("a")}, []client.Object{leaving(hostNamed("a", "bmc", nil))}, true},
		"facts without an owner":               {0, &infrav1.IngotHardware{ObjectMeta: meta("a")}, []client.Object{hostNamed("a", "bmc", nil)}, true},
		"facts, host is forgotten":             {0, &infrav1.IngotHardware{ObjectMeta: owned("a")}, []client.Object{forgotten(hostNamed("a", "bmc", nil))}, false},
		"facts of an earlier host":             {0, &infrav1.IngotHardware{ObjectMeta: owned("earlier")}, []client.Object{hostNamed("a", "bmc", nil)}, false},
		"facts, host is gone":                  {0, &infrav1.IngotHardware{ObjectMeta: owned("a")}, nil, false},
	} {
		for _, deleted := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				builder := fake.NewClientBuilder().WithScheme(testkinds.Scheme(t)).WithObjects(append(tc.hosts, tc.object)...)
				if err := index.Setup(t.Context(), testkinds.Indexer{ClientBuilder: builder}); err != nil {
					t.Fatal(err)
				}
				api := builder.Build()
				key := client.ObjectKeyFromObject(tc.object)
				if deleted {
					if err := api.Delete(t.Context(), tc.object); err != nil {
						t.Fatal(err)
					}
				}
				r := &Reconciler{Client: api, Live: api}
				if _, err := r.reconcile(t.Context(), kinds()[tc.kind], ctrl.Request{NamespacedName: key}); err != nil {
					t.Fatal(err)
				}
				found := kinds()[tc.kind].empty()
				err := api.Get(t.Context(), key, found)
				if client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
				if kept := err == nil && len(found.GetFinalizers()) > 0; kept != tc.keep {
					t.Errorf("kept: %t, want %t", kept, tc.keep)
				}
				if gone := apierrors.IsNotFound(err); gone != (deleted && !tc.keep) {
					t.Errorf("gone: %t", gone)
				}
			})
		}
	}
}

// A Secret that hosts share loses Ingot's labels with its last host: clusterctl does not move it then.
func TestSharedSecretIsReleasedByItsLastHost(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts []client.Object
		want  map[string]string
	}{
		"a host names it":        {[]client.Object{hostNamed("a", "bmc", nil)}, map[string]string{"app": "db", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: ""}},
		"its host names another": {[]client.Object{hostNamed("a", "new", nil)}, map[string]string{"app": "db"}},
		"its host is gone":       {nil, map[string]string{"app": "db"}},
	} {
		t.Run(name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: meta("bmc")}
			secret.Labels = map[string]string{"app": "db", infrav1.BMCCredentialsLabel: "", infrav1.BMCCredentialsSharedLabel: ""}
			builder := fake.NewClientBuilder().WithScheme(testkinds.Scheme(t)).WithObjects(append(tc.hosts, secret)...)
			if err := index.Setup(t.Context(), testkinds.Indexer{ClientBuilder: builder}); err != nil {
				t.Fatal(err)
			}
			api := builder.Build()
			key := client.ObjectKeyFromObject(secret)
			r := &Reconciler{Client: api, Live: api}
			if _, err := r.reconcile(t.Context(), kinds()[1], ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), key, secret); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, secret.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// A host that is forgotten or refers to another Secret triggers its earlier objects.
func TestChangesThatRelease(t *testing.T) {
	secrets := kinds()[1]
	before := hostNamed("a", "bmc", nil)
	forgotten, renamed, other := before.DeepCopy(), hostNamed("a", "new", nil), before.DeepCopy()
	forgotten.DeletionTimestamp, forgotten.Finalizers = ptr.To(metav1.Now()), nil
	other.Labels = map[string]string{"a": "b"}
	for name, tc := range map[string]struct {
		after *infrav1.IngotHost
		want  bool
	}{"forgotten": {forgotten, true}, "names another": {renamed, true}, "labeled": {other, false}} {
		if got := needEnded(secrets).Update(event.UpdateEvent{ObjectOld: before, ObjectNew: tc.after}); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

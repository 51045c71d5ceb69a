// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Removed owner references and finalizers, as after some backups, are restored once.
func testOwnersAreRestored(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	host := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} })
	for range 5 {
		y.step("h")
	}
	facts, secret := &infrav1.IngotHardware{}, &corev1.Secret{}
	facts.Name, facts.Namespace = "h", y.ns
	secret.Name, secret.Namespace = "bmc", y.ns

	owner := metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "h", UID: host.UID}
	controller := owner
	controller.Controller, controller.BlockOwnerDeletion = ptr.To(true), ptr.To(true)
	older, released := controller, controller
	older.APIVersion, released.Controller = infrav1.GroupVersion.Group+"/v1alpha1", nil
	for name, left := range map[string][]metav1.OwnerReference{
		"none": nil, "of an older version": {older}, "not in control": {released},
	} {
		t.Run(name, func(t *testing.T) {
			for _, object := range []client.Object{facts, secret} {
				must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(object), object))
				object.SetOwnerReferences(left)
				object.SetFinalizers(nil)
				must(y, y.api.Update(y.ctx, object))
			}
			y.step("h")
			must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(facts), facts))
			if diff := cmp.Diff([]metav1.OwnerReference{controller}, facts.OwnerReferences); diff != "" {
				t.Errorf("owners of the facts (-want +got):\n%s", diff)
			}
			must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
			if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != host.UID || secret.OwnerReferences[0].APIVersion != owner.APIVersion {
				t.Errorf("owners of the Secret: %+v", secret.OwnerReferences)
			}
			for _, object := range []client.Object{facts, secret} { // I23
				if got := object.GetFinalizers(); !cmp.Equal(got, []string{infrav1.InUseFinalizer}) {
					t.Errorf("finalizers of %T: %v", object, got)
				}
			}
		})
	}
	y.edit("h", func(h *infrav1.IngotHost) { h.Finalizers = nil })
	y.step("h")
	if got := y.get("h").Finalizers; !cmp.Equal(got, []string{infrav1.HostFinalizer}) {
		t.Errorf("finalizers %v", got)
	}

	versions := func() []string {
		for _, object := range []client.Object{facts, secret} {
			must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(object), object))
		}
		return []string{facts.ResourceVersion, secret.ResourceVersion}
	}
	before := versions()
	y.atRest("h")
	if diff := cmp.Diff(before, versions()); diff != "" {
		t.Errorf("written again and again (-before +after):\n%s", diff)
	}
}

// A Secret without credentials gets no owner and is watched until it or the host is corrected.
func testWrongSecret(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "precious", Labels: map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}},
		Data: map[string][]byte{"tls.key": []byte("k"), infrav1.SecretKeyUsername: []byte("root")}}
	y.create(secret)
	y.host("a", func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "precious" })
	owned := func() bool {
		t.Helper()
		for range 4 {
			y.step("a")
		}
		must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
		if _, labelled := secret.Labels[infrav1.BMCCredentialsLabel]; !labelled {
			t.Error("the Secret is not watched")
		}
		return len(secret.OwnerReferences) > 0
	}
	if owned() {
		t.Errorf("would be deleted with a host: %+v", secret.OwnerReferences)
	}
	before := secret.ResourceVersion
	if owned(); secret.ResourceVersion != before {
		t.Error("the Secret is written again and again")
	}
	secret.Data[infrav1.SecretKeyPassword] = []byte(canary)
	must(y, y.api.Update(y.ctx, secret))
	if !owned() {
		t.Error("a Secret that was completed has no owner, and would not be moved")
	}
}

// No host owns a CA, so that none deletes it. clusterctl moves it by a label.
func testCAOwners(t *testing.T, on *testEnv) {
	controller := metav1.OwnerReference{APIVersion: "trust.cert-manager.io/v1alpha1", Kind: "Bundle", Name: "all", UID: "1", Controller: ptr.To(true)}
	person := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: "2"}
	pem := map[string]string{infrav1.CAKey: "pem"}
	inSecret := func(name string, kind corev1.SecretType, keys ...string) *corev1.Secret {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: kind, Data: map[string][]byte{infrav1.CAKey: []byte("pem")}}
		for _, key := range keys {
			secret.Data[key] = []byte(key)
		}
		return secret
	}
	for name, tc := range map[string]struct {
		object client.Object
		// before are owners that stay; earlier: an earlier version added hosts.
		before       []metav1.OwnerReference
		earlier      bool
		moved, owned bool
	}{
		"a ConfigMap":               {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: pem}, moved: true},
		"a ConfigMap with owners":   {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: pem}, before: []metav1.OwnerReference{person}, earlier: true, moved: true},
		"the cluster's own":         {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: infrav1.RootCAConfigMap}, Data: pem}},
		"the cluster's own, owned":  {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: infrav1.RootCAConfigMap}, Data: pem}, earlier: true},
		"what a controller keeps":   {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: pem}, before: []metav1.OwnerReference{controller}, earlier: true},
		"named by mistake":          {object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ca"}, Data: map[string]string{"settings": "s"}}, earlier: true},
		"a Secret":                  {object: inSecret("ca", ""), earlier: true, moved: true},
		"a Secret with its own key": {object: inSecret("ca", corev1.SecretTypeTLS, "tls.crt", "tls.key"), earlier: true},
		"the password's Secret":     {object: inSecret("bmc", "", "username", "password"), earlier: true, moved: true},
	} {
		t.Run(name, func(t *testing.T) {
			y := newFixture(t, on)
			object, ok := tc.object.DeepCopyObject().(client.Object)
			if !ok {
				t.Fatal("no object")
			}
			object.SetNamespace(y.ns)
			object.SetOwnerReferences(tc.before)
			y.create(object)
			host := y.ready("h", func(h *infrav1.IngotHost) {
				h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: object.GetName(), Kind: infrav1.CABundleConfigMap}
				if _, secret := object.(*corev1.Secret); secret {
					h.Spec.BMC.CABundleRef.Kind = infrav1.CABundleSecret
				}
			})
			if tc.earlier {
				object.SetOwnerReferences(append(object.GetOwnerReferences(),
					metav1.OwnerReference{APIVersion: infrav1.GroupVersion.Group + "/v1alpha1", Kind: "IngotHost", Name: "h", UID: host.UID},
					metav1.OwnerReference{APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "gone", UID: "3"}))
				must(y, y.api.Update(y.ctx, object))
			}
			for range 4 {
				y.step("h")
			}
			must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(object), object))
			checkCA(t, object, tc.moved, tc.owned, tc.before)
			if held := slices.Contains(object.GetFinalizers(), infrav1.InUseFinalizer); held != (name != "named by mistake") { // I23
				t.Errorf("held until the host is forgotten: %t", held)
			}
			version := object.GetResourceVersion()
			for range 3 {
				y.step("h")
			}
			if must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(object), object)); object.GetResourceVersion() != version {
				t.Error("written again and again")
			}
		})
	}
}

// checkCA checks labels and owners of an object with certificates.
func checkCA(t *testing.T, object client.Object, moved, owned bool, kept []metav1.OwnerReference) {
	t.Helper()
	if _, watched := object.GetLabels()[infrav1.BMCCredentialsLabel]; !watched {
		t.Errorf("not watched: %v", object.GetLabels())
	}
	if _, labelled := object.GetLabels()[clusterctlv1.ClusterctlMoveLabel]; labelled != moved {
		t.Errorf("moved: %t, want %t", labelled, moved)
	}
	if owned {
		if !slices.ContainsFunc(object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.Kind == "IngotHost" }) {
			t.Error("the host's password would not be moved with it")
		}
		return
	}
	if diff := cmp.Diff(kept, object.GetOwnerReferences()); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

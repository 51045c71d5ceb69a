// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Whoever takes away what holds a host's objects together, as some backups do, or
// leaves an old version of the API there, finds it put back, once.
func testOwners(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	y := newYard(t, cfg, scheme)
	host := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedAt: metav1.Now()} })
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

// A Secret or ConfigMap that holds no credentials was named by mistake: it gets no
// owner with whose end it would be deleted. It is watched, until somebody corrects it
// or the host.
func testWrongSecret(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	y := newYard(t, cfg, scheme)
	meta := metav1.ObjectMeta{Namespace: y.ns, Name: "precious"}
	secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"tls.key": []byte("k"), infrav1.SecretKeyUsername: []byte("root")}}
	bundle := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"settings": "s"}}
	y.create(secret)
	y.create(bundle)
	y.host("a", func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "precious" })
	y.ready("b", func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "precious"} })
	owned := func(object client.Object, host string) bool {
		t.Helper()
		for range 4 {
			y.step(host)
		}
		must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(object), object))
		if _, labelled := object.GetLabels()[infrav1.BMCCredentialsLabel]; !labelled {
			t.Errorf("%T is not watched", object)
		}
		return len(object.GetOwnerReferences()) > 0
	}
	if owned(secret, "a") || owned(bundle, "b") {
		t.Errorf("would be deleted with a host: %+v, %+v", secret.OwnerReferences, bundle.OwnerReferences)
	}
	before := []string{secret.ResourceVersion, bundle.ResourceVersion}
	if owned(secret, "a"); secret.ResourceVersion != before[0] {
		t.Error("the Secret is written again and again")
	}
	secret.Data[infrav1.SecretKeyPassword] = []byte(canary)
	must(y, y.api.Update(y.ctx, secret))
	bundle.Data[infrav1.CAKey] = "certificate"
	must(y, y.api.Update(y.ctx, bundle))
	if !owned(secret, "a") || !owned(bundle, "b") {
		t.Error("a Secret or ConfigMap that was completed has no owner, and would not be moved")
	}
}

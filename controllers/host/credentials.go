// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// access is how a BMC is reached, or what is missing for it.
type access struct {
	target  bmc.Target
	problem inventory.BMCProblem
	message string
	// version is a digest of the credentials and the CA: it changes when they do,
	// and not when somebody labels the Secret. It is kept in memory only.
	version string
}

// missing says what a person has to make.
func (a access) missing(problem inventory.BMCProblem, format string, args ...any) access {
	a.problem, a.message = problem, fmt.Sprintf(format, args...)
	return a
}

// accessOf reads credentials and CA. An error is the API server's only.
func (r *Reconciler) accessOf(ctx context.Context, host *infrav1.IngotHost) (access, error) {
	spec := host.Spec.BMC
	out := access{target: bmc.Target{Address: spec.Address, InsecureSkipVerify: ptr.Deref(spec.InsecureSkipVerify, false)}}
	digest := sha256.New()

	secret := &corev1.Secret{}
	err := r.adopt(ctx, host, spec.CredentialsRef.Name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return out.missing(inventory.BMCCredentialsMissing, "Secret %q does not exist in namespace %q", spec.CredentialsRef.Name, host.Namespace), nil
	case err != nil:
		return out, fmt.Errorf("credentials of the BMC: %w", err)
	}
	if key := missingKey(secret); key != "" {
		return out.missing(inventory.BMCCredentialsMissing, "Secret %q has no key %q, or it is empty", secret.Name, key), nil
	}
	for _, key := range secretKeys() {
		_, _ = fmt.Fprintf(digest, "%q", secret.Data[key])
	}
	out.target.Username = string(secret.Data[infrav1.SecretKeyUsername])
	out.target.Password = bmc.Password(secret.Data[infrav1.SecretKeyPassword])

	if spec.CABundleRef != nil {
		bundle := &corev1.ConfigMap{}
		err = r.adopt(ctx, host, spec.CABundleRef.Name, bundle)
		switch {
		case apierrors.IsNotFound(err):
			return out.missing(inventory.BMCCAMissing, "ConfigMap %q does not exist in namespace %q", spec.CABundleRef.Name, host.Namespace), nil
		case err != nil:
			return out, fmt.Errorf("CA bundle of the BMC: %w", err)
		case missingKey(bundle) != "":
			return out.missing(inventory.BMCCAMissing, "ConfigMap %q has no key %q, or it is empty", bundle.Name, infrav1.CAKey), nil
		}
		out.target.CABundle = []byte(bundle.Data[infrav1.CAKey])
		_, _ = digest.Write(out.target.CABundle)
	}
	out.version = hex.EncodeToString(digest.Sum(nil))
	return out, nil
}

// adopt reads a Secret or ConfigMap that the host names, labels it and makes every
// host that names it an owner: so it is cached, watched and moved (I18), and goes
// with the last of its hosts, not with the first. The cache holds labelled ones
// only: one that a person has just made is read live. One without credentials, which
// was named by mistake, is watched and gets no owner: it would be deleted with the host.
func (r *Reconciler) adopt(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object) error {
	key := client.ObjectKey{Namespace: host.Namespace, Name: name}
	err := r.Client.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, obj)
	}
	if err != nil || !host.DeletionTimestamp.IsZero() || adopted(host, obj) {
		return err
	}
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	labels := map[string]string{infrav1.BMCCredentialsLabel: ""}
	for label, value := range obj.GetLabels() {
		labels[label] = value
	}
	obj.SetLabels(labels)
	if missingKey(obj) == "" {
		if err := controllerutil.SetOwnerReference(host, obj, r.Client.Scheme()); err != nil {
			return err
		}
	}
	// Hosts that share a Secret adopt it at the same time: by optimistic lock, so
	// that none is lost. Who comes too late has read the data all the same, and
	// adopts at the next reconcile.
	err = r.Client.Patch(ctx, obj, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// adopted says whether an object carries the label and names the host as an owner, if
// it is to have one.
func adopted(host *infrav1.IngotHost, obj client.Object) bool {
	_, labelled := obj.GetLabels()[infrav1.BMCCredentialsLabel]
	return labelled && (names(host, obj) || missingKey(obj) != "")
}

func secretKeys() []string { return []string{infrav1.SecretKeyUsername, infrav1.SecretKeyPassword} }

// missingKey is the first key that a Secret with credentials, or a ConfigMap with a
// CA, needs and the object has not, or has empty; "" when it has all.
func missingKey(obj client.Object) string {
	switch obj := obj.(type) {
	case *corev1.Secret:
		for _, key := range secretKeys() {
			if len(obj.Data[key]) == 0 {
				return key
			}
		}
	case *corev1.ConfigMap:
		if obj.Data[infrav1.CAKey] == "" {
			return infrav1.CAKey
		}
	}
	return ""
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Access is how a BMC is reached, or what is missing for it.
type Access struct {
	Target bmc.Target
	// Problem is BMCOK where nothing is missing; Message says for people what is.
	Problem lifecycle.BMCProblem
	Message string
	// Version is a digest of the credentials and the CA: it changes when they do,
	// and not when somebody labels the Secret. It is kept in memory only.
	Version string
	// Secret holds the credentials, and during a rotation the next password.
	Secret *corev1.Secret
	// Unpinned: the certificate is to be pinned before anything is sent to the BMC.
	Unpinned bool
}

// missing says what a person has to make.
func (a Access) missing(problem lifecycle.BMCProblem, format string, args ...any) Access {
	a.Problem, a.Message = problem, fmt.Sprintf(format, args...)
	return a
}

// Find reads credentials and trust of a host that has a BMC. facts may be nil. An error
// is the API server's only.
func (f *Finder) Find(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) (Access, error) {
	spec := host.Spec.BMC
	out := Access{Secret: &corev1.Secret{}, Target: bmc.Target{
		Address: spec.Address, InsecureSkipVerify: ptr.Deref(spec.InsecureSkipVerify, false), Fingerprint: spec.CertificateFingerprint,
	}}
	if trustsFirstUse(host) {
		out.Target.Fingerprint = pinOf(host, facts)
		out.Unpinned = out.Target.Fingerprint == ""
	}
	if err := f.Withdraw(ctx, host); err != nil {
		return out, err
	}
	err := f.adopt(ctx, host, spec.CredentialsRef.Name, out.Secret, secretKeys()...)
	switch {
	case apierrors.IsNotFound(err):
		return out.missing(lifecycle.BMCCredentialsMissing, "Secret %q does not exist in namespace %q", spec.CredentialsRef.Name, host.Namespace), nil
	case err != nil:
		return out, fmt.Errorf("credentials of the BMC: %w", err)
	}
	if key := missingKey(out.Secret, secretKeys()...); key != "" {
		return out.missing(lifecycle.BMCCredentialsMissing, "Secret %q has no key %q, or it is empty", out.Secret.Name, key), nil
	}
	digest := sha256.New()
	for _, key := range secretKeys() {
		_, _ = fmt.Fprintf(digest, "%q", out.Secret.Data[key])
	}
	out.Target.Username = string(out.Secret.Data[infrav1.SecretKeyUsername])
	out.Target.Password = bmc.Password(out.Secret.Data[infrav1.SecretKeyPassword])
	if spec.CABundleRef != nil {
		if out, err = f.caBundle(ctx, host, out); err != nil || out.Problem != lifecycle.BMCOK {
			return out, err
		}
		_, _ = digest.Write(out.Target.CABundle)
	}
	out.Version = hex.EncodeToString(digest.Sum(nil))
	return out, nil
}

// read gets a Secret or ConfigMap that the host names. The cache holds labelled ones
// only: one that a person has just made is read live.
func (f *Finder) read(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object) error {
	key := client.ObjectKey{Namespace: host.Namespace, Name: name}
	err := f.Client.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		err = f.Live.Get(ctx, key, obj)
	}
	return err
}

// maxOwners is how many hosts own a Secret together. Each is an entry of the object that
// every other's write carries along, and a read of the garbage collector's when one goes:
// one Secret for a site of thousands would fill etcd before it is written for the last.
const maxOwners = 16

// adopt reads a Secret with credentials and labels it, so that it is cached, watched and
// moved (I18). InUseFinalizer keeps it until its last host is forgotten (I23). The hosts own
// it only if its creator wants that (see own). A Secret without the keys that it was named
// for, by mistake surely, is watched, and neither owned nor kept.
func (f *Finder) adopt(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object, keys ...string) error {
	err := f.read(ctx, host, name, obj)
	fits := err == nil && missingKey(obj, keys...) == ""
	if err != nil || !host.DeletionTimestamp.IsZero() || adopted(host, obj, fits) {
		return err
	}
	base, err := copyOf(obj)
	if err != nil {
		return err
	}
	label(obj, infrav1.BMCCredentialsLabel)
	if fits {
		hold(obj)
		if err := f.own(ctx, host, obj); err != nil {
			return err
		}
	}
	return f.patchShared(ctx, base, obj, Share)
}

// own makes the host one of a Secret's owners if the Secret's creator has asked for that by
// BMCCredentialsDeleteLabel. No host owns a Secret that a controller manages, that more than
// maxOwners hosts use, or that holds a password which only Ingot knows.
func (f *Finder) own(ctx context.Context, host *infrav1.IngotHost, secret client.Object) error {
	others := slices.DeleteFunc(slices.Clone(secret.GetOwnerReferences()), isHost)
	if isKept(secret) {
		secret.SetOwnerReferences(others)
		return nil
	}
	if mayBeOwned(secret) {
		users, err := f.users(ctx, secret, maxOwners+1)
		if err != nil {
			return err
		}
		if users <= maxOwners {
			return controllerutil.SetOwnerReference(host, secret, f.Client.Scheme())
		}
	}
	Share(secret)
	secret.SetOwnerReferences(others)
	return nil
}

// mayBeOwned reports whether a Secret may be deleted with its hosts: its creator has said so,
// and Ingot has not rotated the password.
func mayBeOwned(secret client.Object) bool {
	_, asked := secret.GetLabels()[infrav1.BMCCredentialsDeleteLabel]
	_, rotated := secret.GetAnnotations()[infrav1.RotatedAtAnnotation]
	return asked && !rotated
}

// movedByCreator is the value of BMCCredentialsSharedLabel of a Secret that had clusterctl's
// label before: Ingot does not take that label away.
const movedByCreator = "moved-by-creator"

// Share labels a Secret that no host owns, so that clusterctl moves it.
func Share(secret client.Object) {
	_, shared := secret.GetLabels()[infrav1.BMCCredentialsSharedLabel]
	_, moves := secret.GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	label(secret, infrav1.BMCCredentialsSharedLabel)
	label(secret, clusterctlv1.ClusterctlMoveLabel)
	if moves && !shared {
		secret.GetLabels()[infrav1.BMCCredentialsSharedLabel] = movedByCreator // in the map that label made
	}
}

// hold adds InUseFinalizer. The API server takes no new finalizer of an object that is being
// deleted.
func hold(obj client.Object) {
	if obj.GetDeletionTimestamp().IsZero() {
		controllerutil.AddFinalizer(obj, infrav1.InUseFinalizer)
	}
}

// isHeld reports whether hold has nothing to do.
func isHeld(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() || controllerutil.ContainsFinalizer(obj, infrav1.InUseFinalizer)
}

// isKept says whether a controller keeps the object; an older version of the API is none.
func isKept(object client.Object) bool {
	keeper := metav1.GetControllerOf(object)
	return keeper != nil && !isHost(*keeper)
}

// users counts the hosts that have their password in the Secret, to the limit.
func (f *Finder) users(ctx context.Context, secret client.Object, limit int64) (int, error) {
	hosts := &infrav1.IngotHostList{}
	err := f.Client.List(ctx, hosts, client.MatchingFields{index.HostByCredentials: secret.GetNamespace() + "/" + secret.GetName()},
		client.Limit(limit), client.UnsafeDisableDeepCopy) // nothing of them is changed
	if err != nil {
		return 0, fmt.Errorf("hosts whose password is in Secret %s: %w", secret.GetName(), err)
	}
	return len(hosts.Items), nil
}

// isNobodys reports whether no host owns a Secret, and no host is to own it.
func isNobodys(secret client.Object) bool {
	_, shared := secret.GetLabels()[infrav1.BMCCredentialsSharedLabel]
	return (shared || isKept(secret)) && !slices.ContainsFunc(secret.GetOwnerReferences(), isHost)
}

// patchShared writes what hosts change in an object that they may share, at the same
// time: by optimistic lock, so that none is lost. Who comes too late has read the data
// all the same, and changes it at the next reconcile. The admission plugin
// OwnerReferencesPermissionEnforcement asks for the right to delete what gets another owner,
// which the manager does not have for Secrets: then the owners stay, and instead is applied.
func (f *Finder) patchShared(ctx context.Context, base, obj client.Object, instead func(client.Object)) error {
	lock := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := f.Client.Patch(ctx, obj, lock)
	if apierrors.IsForbidden(err) && !equality.Semantic.DeepEqual(base.GetOwnerReferences(), obj.GetOwnerReferences()) {
		obj.SetOwnerReferences(base.GetOwnerReferences())
		instead(obj)
		err = f.Client.Patch(ctx, obj, lock)
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// keepAsIs is for patchShared where nothing is done instead.
func keepAsIs(client.Object) {}

func copyOf(obj client.Object) (client.Object, error) {
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", obj)
	}
	return base, nil
}

// label sets an empty label, in a map of its own: the cache's is not written to.
func label(obj client.Object, name string) {
	labels := map[string]string{name: ""}
	for label, value := range obj.GetLabels() {
		labels[label] = value
	}
	obj.SetLabels(labels)
}

// adopted reports whether adopt has nothing to change.
func adopted(host *infrav1.IngotHost, obj client.Object, fits bool) bool {
	_, labelled := obj.GetLabels()[infrav1.BMCCredentialsLabel]
	owned := hardware.IsOwner(host, obj) && mayBeOwned(obj)
	return labelled && (!fits || isHeld(obj) && (owned || isNobodys(obj)))
}

func secretKeys() []string { return []string{infrav1.SecretKeyUsername, infrav1.SecretKeyPassword} }

// dataOf is what a Secret or a ConfigMap holds.
func dataOf(obj client.Object) map[string][]byte {
	switch obj := obj.(type) {
	case *corev1.Secret:
		return obj.Data
	case *corev1.ConfigMap:
		data := make(map[string][]byte, len(obj.Data))
		for key, value := range obj.Data {
			data[key] = []byte(value)
		}
		return data
	}
	return nil
}

// missingKey is the first of the keys that an object has not, or has empty; "" when
// it has all.
func missingKey(obj client.Object, keys ...string) string {
	data := dataOf(obj)
	for _, key := range keys {
		if len(data[key]) == 0 {
			return key
		}
	}
	return ""
}

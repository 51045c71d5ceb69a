// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
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

// Access is how to reach a BMC, or what is missing.
type Access struct {
	Target bmc.Target
	// Problem is BMCOK if nothing is missing; else Message describes the problem.
	Problem lifecycle.BMCProblem
	Message string
	// Version is a digest of the credentials and the CA. It does not change with labels. It is kept
	// in memory only.
	Version string
	// Secret holds the credentials and, during a rotation, the next password.
	Secret *corev1.Secret
	// Unpinned: the certificate must be pinned before anything is sent to the BMC.
	Unpinned bool
}

// missing returns a with a problem.
func (a Access) missing(problem lifecycle.BMCProblem, format string, args ...any) Access {
	a.Problem, a.Message = problem, fmt.Sprintf(format, args...)
	return a
}

// Find reads the credentials and trust of a host that has a BMC. facts may be nil. It returns errors of
// the API server only.
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
		return out.missing(lifecycle.BMCCredentialsMissing, "Secret %q does not exist in namespace %q.", spec.CredentialsRef.Name, host.Namespace), nil
	case err != nil:
		return out, fmt.Errorf("read credentials of the BMC: %w", err)
	}
	if key := missingKey(out.Secret, secretKeys()...); key != "" {
		return out.missing(lifecycle.BMCCredentialsMissing, "Secret %q has no key %q, or its value is empty.", out.Secret.Name, key), nil
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

// read reads a Secret or ConfigMap that the host names. The cache holds labeled objects only: a new one
// is read live.
func (f *Finder) read(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object) error {
	key := client.ObjectKey{Namespace: host.Namespace, Name: name}
	err := f.Client.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		err = f.Live.Get(ctx, key, obj)
	}
	return err
}

// maxOwners is how many hosts may own a Secret together. Each owner makes every write of the object
// larger, and costs the garbage collector a read when it is deleted. A Secret that thousands of hosts
// use would exceed the object size limit of etcd.
const maxOwners = 16

// adopt reads a Secret with credentials, and labels it to be cached, watched and moved (I18).
// InUseFinalizer keeps it until its last host is forgotten (I23). A Secret without the keys, named by
// mistake, is watched only.
func (f *Finder) adopt(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object, keys ...string) error {
	err := f.read(ctx, host, name, obj)
	hasKeys := err == nil && missingKey(obj, keys...) == ""
	if err != nil || !host.DeletionTimestamp.IsZero() || isAdopted(host, obj, hasKeys) {
		return err
	}
	base, err := copyOf(obj)
	if err != nil {
		return err
	}
	label(obj, infrav1.BMCCredentialsLabel)
	if hasKeys {
		addFinalizer(obj)
		if err := f.own(ctx, host, obj); err != nil {
			return err
		}
	}
	return f.patchShared(ctx, base, obj, LabelShared)
}

// own makes the host an owner of a Secret, if its creator has asked for that by
// BMCCredentialsDeleteLabel. Hosts do not own a Secret that a controller manages, that more than
// maxOwners hosts use, or whose password only Ingot knows.
func (f *Finder) own(ctx context.Context, host *infrav1.IngotHost, secret client.Object) error {
	others := slices.DeleteFunc(slices.Clone(secret.GetOwnerReferences()), isHost)
	if isManaged(secret) {
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
	LabelShared(secret)
	secret.SetOwnerReferences(others)
	return nil
}

// mayBeOwned reports whether a Secret may be deleted with its hosts: its creator asked for that, and
// Ingot has not rotated the password.
func mayBeOwned(secret client.Object) bool {
	_, asked := secret.GetLabels()[infrav1.BMCCredentialsDeleteLabel]
	_, rotated := secret.GetAnnotations()[infrav1.RotatedAtAnnotation]
	return asked && !rotated
}

// movedByCreator is the value of BMCCredentialsSharedLabel of a Secret that had clusterctl's label
// before: Ingot does not remove that label.
const movedByCreator = "moved-by-creator"

// LabelShared labels a Secret that no host owns, so that clusterctl moves it.
func LabelShared(secret client.Object) {
	_, shared := secret.GetLabels()[infrav1.BMCCredentialsSharedLabel]
	_, moves := secret.GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	label(secret, infrav1.BMCCredentialsSharedLabel)
	label(secret, clusterctlv1.ClusterctlMoveLabel)
	if moves && !shared {
		secret.GetLabels()[infrav1.BMCCredentialsSharedLabel] = movedByCreator // label made a new map
	}
}

// addFinalizer adds InUseFinalizer, unless the object is being deleted: the API server would refuse it.
func addFinalizer(obj client.Object) {
	if obj.GetDeletionTimestamp().IsZero() {
		controllerutil.AddFinalizer(obj, infrav1.InUseFinalizer)
	}
}

// isHeld reports whether addFinalizer has nothing to do.
func isHeld(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() || controllerutil.ContainsFinalizer(obj, infrav1.InUseFinalizer)
}

// isManaged reports whether a controller manages the object. An IngotHost of an older API version does
// not count.
func isManaged(object client.Object) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && !isHost(*owner)
}

// users counts the hosts that have their password in the Secret, up to limit.
func (f *Finder) users(ctx context.Context, secret client.Object, limit int64) (int, error) {
	hosts := &infrav1.IngotHostList{}
	err := f.Client.List(ctx, hosts, client.MatchingFields{index.HostByCredentials: secret.GetNamespace() + "/" + secret.GetName()},
		client.Limit(limit), client.UnsafeDisableDeepCopy)
	if err != nil {
		return 0, fmt.Errorf("list hosts whose password is in Secret %s: %w", secret.GetName(), err)
	}
	return len(hosts.Items), nil
}

// isShared reports whether no IngotHost owns or may own a Secret: it is labeled as shared, or another
// controller manages it.
func isShared(secret client.Object) bool {
	_, shared := secret.GetLabels()[infrav1.BMCCredentialsSharedLabel]
	return (shared || isManaged(secret)) && !slices.ContainsFunc(secret.GetOwnerReferences(), isHost)
}

// patchShared writes an object that several hosts may change at once, with optimistic locking. After a
// conflict the next reconcile tries again. The admission plugin OwnerReferencesPermissionEnforcement
// requires the right to delete an object that gets an owner, which the manager does not have for
// Secrets. Then the owners stay as they were, and fallback changes the object.
func (f *Finder) patchShared(ctx context.Context, base, obj client.Object, fallback func(client.Object)) error {
	lock := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := f.Client.Patch(ctx, obj, lock)
	if apierrors.IsForbidden(err) && !equality.Semantic.DeepEqual(base.GetOwnerReferences(), obj.GetOwnerReferences()) {
		obj.SetOwnerReferences(base.GetOwnerReferences())
		fallback(obj)
		err = f.Client.Patch(ctx, obj, lock)
	}
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// keepAsIs is a fallback that changes nothing.
func keepAsIs(client.Object) {}

func copyOf(obj client.Object) (client.Object, error) {
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("copy %T: not a client.Object", obj)
	}
	return base, nil
}

// label sets an empty label in a new map, since the cache owns the old one.
func label(obj client.Object, name string) {
	labels := map[string]string{name: ""}
	maps.Copy(labels, obj.GetLabels())
	obj.SetLabels(labels)
}

// isAdopted reports whether adopt has nothing to change.
func isAdopted(host *infrav1.IngotHost, obj client.Object, hasKeys bool) bool {
	_, labeled := obj.GetLabels()[infrav1.BMCCredentialsLabel]
	isOwner := hardware.IsOwner(host, obj) && mayBeOwned(obj)
	return labeled && (!hasKeys || isHeld(obj) && (isOwner || isShared(obj)))
}

func secretKeys() []string { return []string{infrav1.SecretKeyUsername, infrav1.SecretKeyPassword} }

// dataOf returns the data of a Secret or ConfigMap.
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

// missingKey returns the first key without a value, or "".
func missingKey(obj client.Object, keys ...string) string {
	data := dataOf(obj)
	for _, key := range keys {
		if len(data[key]) == 0 {
			return key
		}
	}
	return ""
}

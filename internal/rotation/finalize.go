// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Last is the condition of a rotation whose end was not told, or was lost with
// the status, by what it left in the Secret; nil: what the host says is right.
func Last(host *infrav1.IngotHost, secret *corev1.Secret) *metav1.Condition {
	at, rotated := secret.Annotations[infrav1.RotatedAtAnnotation]
	if !rotated || IsPending(host, secret) {
		return nil
	}
	last := metav1.Condition{Type: infrav1.HostCredentialsRotatedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonCredentialsRotated,
		Message: fmt.Sprintf("Secret %s holds the password that Ingot gave the BMC at %s", secret.Name, at), ObservedGeneration: host.Generation}
	if _, failed := secret.Data[infrav1.SecretKeyUnprovenPassword]; failed {
		last.Status, last.Reason = metav1.ConditionFalse, infrav1.ReasonRotationFailed
		last.Message = fmt.Sprintf("the BMC did not take a new password at %s: Secret %s holds the one that it has", at, secret.Name)
	}
	told := conditions.Get(host, infrav1.HostCredentialsRotatedCondition)
	if told != nil && (told.Reason == last.Reason || told.Reason == infrav1.ReasonRotationRefused) {
		return nil
	}
	return &last
}

// Keep takes a host that is about to be forgotten from the owners of its Secret, if the BMC has
// a password that only Ingot knows: a version of Ingot before this one may have made the
// host an owner. The error is the API server's, or ErrStale.
func (r *Rotator) Keep(ctx context.Context, host *infrav1.IngotHost) error {
	if host.Spec.BMC == nil {
		return nil
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.BMC.CredentialsRef.Name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("credentials of a host that goes: %w", err)
	}
	_, rotated := secret.Annotations[infrav1.RotatedAtAnnotation]
	ours := func(owner metav1.OwnerReference) bool { return owner.UID == host.UID }
	if !rotated || !secret.DeletionTimestamp.IsZero() {
		return nil
	}
	if slices.ContainsFunc(secret.OwnerReferences, ours) {
		kept := secret.DeepCopy()
		kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, ours)
		err = r.Client.Patch(ctx, kept, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ErrStale
		}
		if err != nil && !apierrors.IsForbidden(err) { // as in write
			return fmt.Errorf("keeping Secret %s: %w", secret.Name, err)
		}
	}
	r.Note(host, infrav1.ReasonCredentialsKept, fmt.Sprintf("Secret %s is not deleted with the host: Ingot gave the BMC the password in it, and nobody else knows it; "+
		"delete it when the BMC has another", secret.Name))
	return nil
}

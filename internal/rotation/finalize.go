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

// Last returns the condition of a finished rotation that the host's status lacks, by the content of
// the Secret. It returns nil if the status is right.
func Last(host *infrav1.IngotHost, secret *corev1.Secret) *metav1.Condition {
	at, rotated := secret.Annotations[infrav1.RotatedAtAnnotation]
	if !rotated || IsPending(host, secret) {
		return nil
	}
	last := metav1.Condition{Type: infrav1.HostCredentialsRotatedCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonCredentialsRotated,
		Message: fmt.Sprintf("Secret %s holds the BMC password that Ingot set at %s.", secret.Name, at), ObservedGeneration: host.Generation}
	if _, failed := secret.Data[infrav1.SecretKeyUnprovenPassword]; failed {
		last.Status, last.Reason = metav1.ConditionFalse, infrav1.ReasonRotationFailed
		last.Message = fmt.Sprintf("The BMC did not accept a new password at %s. Secret %s holds the password in use.", at, secret.Name)
	}
	shown := conditions.Get(host, infrav1.HostCredentialsRotatedCondition)
	if shown != nil && (shown.Reason == last.Reason || shown.Reason == infrav1.ReasonRotationRejected) {
		return nil
	}
	return &last
}

// Keep removes a host that is being deleted from the owners of its Secret, if only Ingot knows the
// password in it. An earlier version of Ingot may have made the host an owner. It returns ErrStale
// or an error of the API server.
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
		return fmt.Errorf("read credentials of deleted host %s: %w", host.Name, err)
	}
	_, rotated := secret.Annotations[infrav1.RotatedAtAnnotation]
	isOwn := func(owner metav1.OwnerReference) bool { return owner.UID == host.UID }
	if !rotated || !secret.DeletionTimestamp.IsZero() {
		return nil
	}
	if slices.ContainsFunc(secret.OwnerReferences, isOwn) {
		kept := secret.DeepCopy()
		kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, isOwn)
		err = r.Client.Patch(ctx, kept, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ErrStale
		}
		if err != nil && !apierrors.IsForbidden(err) { // as in write
			return fmt.Errorf("keep Secret %s: %w", secret.Name, err)
		}
	}
	r.Note(host, infrav1.ReasonCredentialsRetained, fmt.Sprintf("Secret %s stays: Ingot set the BMC password in it, and no other copy exists. "+
		"Delete it after you changed the password of the BMC.", secret.Name))
	return nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/inventory"
)

// maxOthers bounds how many NICs one message names.
const maxOthers = 3

// obstacle says why the password of the host's BMC must not be changed, and what
// helps; empty: it may be.
func (r *Reconciler) obstacle(ctx context.Context, host *infrav1.IngotHost, secret *corev1.Secret, seen *observation) (string, error) {
	if why := elsewhere(host, seen); why != "" {
		return why, nil
	}
	if isUpdating(host) {
		return fmt.Sprintf("an update of %s is under way, over which the BMC may forget what it is told; annotate again when it is over",
			host.Spec.Record.Preparation.Update.Component), nil
	}
	sharing, err := r.others(ctx, host, client.MatchingFields{index.HostByCredentials: secret.Namespace + "/" + secret.Name})
	if err != nil {
		return "", err
	}
	neighbours, err := r.others(ctx, host, client.MatchingFields{index.HostByBMC: index.BMC(host)})
	if err != nil {
		return "", err
	}
	switch owner := metav1.GetControllerOf(secret); {
	case len(sharing) > 0:
		return fmt.Sprintf("Secret %s is also the one of %s, whose BMC would keep the old password; give each host a Secret of its own in spec.bmc.credentialsRef",
			secret.Name, inventory.ListHosts(host.Namespace, sharing)), nil
	case len(neighbours) > 0:
		return fmt.Sprintf("the BMC is also the one of %s, with a Secret of its own and perhaps the same account; change the password at the BMC and in all their Secrets by hand",
			inventory.ListHosts(host.Namespace, neighbours)), nil
	case owner != nil:
		return fmt.Sprintf("Secret %s is kept by %s %s, which would put the old password back; change it there", secret.Name, owner.Kind, owner.Name), nil
	case ptr.Deref(secret.Immutable, false):
		return fmt.Sprintf("Secret %s is immutable; replace it by one that is not", secret.Name), nil
	}
	return "", nil
}

// elsewhere says why the BMC that was read may not be this host's, and what helps;
// empty: nothing speaks against it. Another server's BMC is not changed (I8), and a
// password that a person gave many BMCs proves nothing.
func elsewhere(host *infrav1.IngotHost, seen *observation) string {
	switch {
	case seen.DuplicateOf != "":
		return fmt.Sprintf("this is the same server as %s; correct or delete one of the two", seen.DuplicateOf)
	case seen.WrongServer != "":
		return fmt.Sprintf("the BMC manages another server than the one that was inspected here: %s; correct spec.bmc.address", seen.WrongServer)
	case seen.BootMACMissing:
		return fmt.Sprintf("spec.bootMACAddress %s is not among the NICs that the BMC lists (%s); correct it, or spec.bmc.address if this is another server",
			host.Spec.BootMACAddress, listed(seen.KnownMACs))
	}
	return ""
}

// isUpdating says whether an update of the host's firmware is under way.
func isUpdating(host *infrav1.IngotHost) bool {
	record := host.Spec.Record
	return record != nil && record.Preparation != nil && record.Preparation.Update != nil
}

// others are the hosts found that are not this one.
func (r *Reconciler) others(ctx context.Context, host *infrav1.IngotHost, by client.ListOption) ([]types.NamespacedName, error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, by); err != nil {
		return nil, fmt.Errorf("hosts that share the BMC's credentials: %w", err)
	}
	var others []types.NamespacedName
	for i := range hosts.Items {
		if other := &hosts.Items[i]; keyOf(other) != keyOf(host) {
			others = append(others, keyOf(other))
		}
	}
	return others, nil
}

func listed(names []string) string {
	if more := len(names) - maxOthers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxOthers], ", "), more)
	}
	return strings.Join(names, ", ")
}

// lastRotation is the condition of a rotation whose end was not told, or was lost with
// the status, by what it left in the Secret; nil: what the host says is right.
func lastRotation(host *infrav1.IngotHost, secret *corev1.Secret) *metav1.Condition {
	at, rotated := secret.Annotations[infrav1.RotatedAtAnnotation]
	if !rotated || isRotating(secret) {
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

// keepRotated takes a host that is about to go from the owners of its Secret, if the
// BMC has a password that nobody else knows: the Secret would be deleted with it.
func (r *Reconciler) keepRotated(ctx context.Context, host *infrav1.IngotHost) error {
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
	if !rotated || !slices.ContainsFunc(secret.OwnerReferences, ours) {
		return nil
	}
	kept := secret.DeepCopy()
	kept.OwnerReferences = slices.DeleteFunc(kept.OwnerReferences, ours)
	err = r.Client.Patch(ctx, kept, client.MergeFromWithOptions(secret, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("keeping Secret %s: %w", secret.Name, err)
	}
	r.note(host, infrav1.ReasonCredentialsKept, fmt.Sprintf("Secret %s is not deleted with the host: Ingot gave the BMC the password in it, and nobody else knows it; "+
		"delete it when the BMC has another", secret.Name))
	return nil
}

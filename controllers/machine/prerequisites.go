// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// waitForReference: the Machine that is named as the owner means this IngotMachine.
// The one by whose name another was copied does not, and nothing is done for the copy.
func (r *Reconciler) waitForReference(_ context.Context, s *scope) (outcome, error) {
	if inventory.RefersTo(s.owner, s.machine) {
		return next, nil
	}
	ref := s.owner.Spec.InfrastructureRef
	message := fmt.Sprintf("Machine %[1]s refers to %[2]s %[3]s, not this IngotMachine, which gets no host and no bootstrap data. Delete it: kubectl delete ingotmachine -n %[4]s %[5]s",
		s.owner.Name, cmp.Or(ref.Kind, "an object"), cmp.Or(ref.Name, "without a name"), s.machine.Namespace, s.machine.Name)
	r.refuse(s, infrav1.ReasonNotTheMachines, message)
	return stop(0), nil
}

// waitForPrerequisites: the cluster's infrastructure is there (M49), and so is the
// bootstrap data (M50). A machine that has a host already is past this.
func (r *Reconciler) waitForPrerequisites(ctx context.Context, s *scope) (outcome, error) {
	ingotCluster := &infrav1.IngotCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}, ingotCluster)
	if client.IgnoreNotFound(err) != nil {
		return next, fmt.Errorf("infrastructure of the cluster: %w", err)
	}
	if err == nil {
		s.ingotCluster = ingotCluster
	}
	if s.machine.Spec.ProviderID != "" {
		return next, nil
	}
	if what := s.ending(); what != "" {
		s.notClaimed(infrav1.ReasonDeleting, what+", and this IngotMachine will be with it: no host is chosen for it any more")
		return stop(0), nil
	}
	if s.ingotCluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return r.waitForCluster(s), nil
	}
	if s.owner.Spec.Bootstrap.DataSecretName == nil {
		s.notClaimed(infrav1.ReasonWaitingForBootstrapData, "The bootstrap data of Machine "+s.owner.Name+" is not there yet; a host is chosen as soon as it is")
		return stop(0), nil
	}
	return next, nil
}

// waitForCluster: M49. The Cluster brings the machine up again when its infrastructure
// is provisioned; an IngotCluster that comes after that is looked for.
func (r *Reconciler) waitForCluster(s *scope) outcome {
	if s.ingotCluster == nil {
		s.notClaimed(infrav1.ReasonWaitingForCluster, "IngotCluster "+s.cluster.Spec.InfrastructureRef.Name+" of Cluster "+s.cluster.Name+" does not exist yet. Ingot looks for it every half minute, and chooses a host once it is provisioned.")
		return r.retryLater()
	}
	s.notClaimed(infrav1.ReasonWaitingForCluster, "The infrastructure of Cluster "+s.cluster.Name+" is not provisioned yet; a host is chosen as soon as it is")
	return stop(0)
}

// ending says what above the machine is being deleted, before Cluster API has come to the
// IngotMachine: hooks hold that up, and a Cluster takes its workers down first. A host that
// comes free meanwhile would be installed, fenced and cleaned for nothing.
func (s *scope) ending() string {
	switch {
	case !s.owner.DeletionTimestamp.IsZero():
		return "Machine " + s.owner.Name + " is being deleted"
	case !s.cluster.DeletionTimestamp.IsZero():
		return "Cluster " + s.cluster.Name + " is being deleted"
	}
	return ""
}

// failureDomain is the one asked for: the Machine's, else the IngotMachine's own,
// which only the older way of contract v1beta1 sets (M17, M18).
func (s *scope) failureDomain() string {
	if s.owner.Spec.FailureDomain != "" {
		return s.owner.Spec.FailureDomain
	}
	return s.machine.Spec.FailureDomain
}

// findImage reads the IngotImage that the machine names. Without it no host is chosen:
// its architecture is part of the choice, and the claim freezes the rest (I3).
func (r *Reconciler) findImage(ctx context.Context, s *scope) (outcome, error) {
	ref := s.machine.Spec.ImageRef
	if ref == nil || s.catalogued != nil {
		return next, nil
	}
	image := &infrav1.IngotImage{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, image)
	if apierrors.IsNotFound(err) {
		message := fmt.Sprintf("IngotImage %s, which spec.imageRef names, does not exist. Create it; a host is chosen as soon as it is there", ref.Name)
		r.refuse(s, infrav1.ReasonImageMissing, message)
		return r.retryLater(), nil
	}
	if err != nil {
		return next, fmt.Errorf("image %s: %w", ref.Name, err)
	}
	s.catalogued = image
	return next, nil
}

// architecture that the image asks for; empty: any.
func (s *scope) architecture() string {
	if s.catalogued == nil {
		return ""
	}
	return s.catalogued.Spec.Architecture
}

// image to install, as the claim freezes it.
func (s *scope) image() infrav1.Image {
	if s.catalogued == nil {
		return s.machine.Spec.Image
	}
	return s.catalogued.Spec.Image()
}

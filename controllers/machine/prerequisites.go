// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/inventory"
)

// waitForReference stops if the owner refers to another IngotMachine, as after this object was
// created from a copy of the other's manifest.
func (r *Reconciler) waitForReference(_ context.Context, s *scope) (outcome, error) {
	if inventory.RefersToMachine(s.owner, s.machine) {
		return next, nil
	}
	ref := s.owner.Spec.InfrastructureRef
	message := fmt.Sprintf("Machine %[1]s refers to %[2]s %[3]s instead of this IngotMachine, which gets no host. Delete it: kubectl delete ingotmachine -n %[4]s %[5]s",
		s.owner.Name, cmp.Or(ref.Kind, "an object"), cmp.Or(ref.Name, "without a name"), s.machine.Namespace, s.machine.Name)
	r.refuse(s, infrav1.ReasonOwnerMismatch, message)
	return stop(0), nil
}

// waitForPrerequisites waits for the cluster's infrastructure (M49) and the bootstrap data (M50),
// unless the machine already selected a host.
func (r *Reconciler) waitForPrerequisites(ctx context.Context, s *scope) (outcome, error) {
	var err error
	s.ingotCluster, err = kubeutil.Find[infrav1.IngotCluster](ctx, r.Client, s.machine.Namespace, s.cluster.Spec.InfrastructureRef.Name)
	if err != nil || s.machine.Spec.ProviderID != "" {
		return next, err
	}
	if deletion := s.deletedOwner(); deletion != "" {
		s.notClaimed(infrav1.ReasonDeleting, deletion+". Ingot selects no host for this IngotMachine.")
		return stop(0), nil
	}
	if s.ingotCluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {
		return r.waitForCluster(s), nil
	}
	if s.owner.Spec.Bootstrap.DataSecretName == nil {
		s.notClaimed(infrav1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap data of Machine "+s.owner.Name+". Ingot then selects a host.")
		return stop(0), nil
	}
	return next, nil
}

// waitForCluster waits for the infrastructure (M49). The Cluster triggers a reconcile when its
// infrastructure is provisioned. A missing IngotCluster needs a retry.
func (r *Reconciler) waitForCluster(s *scope) outcome {
	if s.ingotCluster == nil {
		s.notClaimed(infrav1.ReasonWaitingForClusterInfrastructure, "Waiting for IngotCluster "+s.cluster.Spec.InfrastructureRef.Name+" of Cluster "+s.cluster.Name+", which does not exist. Ingot checks every half minute.")
		return r.retryLater()
	}
	s.notClaimed(infrav1.ReasonWaitingForClusterInfrastructure, "Waiting for the infrastructure of Cluster "+s.cluster.Name+" to be provisioned. Ingot then selects a host.")
	return stop(0)
}

// deletedOwner names the Machine or Cluster that is being deleted; empty: none. Hooks, or the
// order in which a Cluster is deleted, may delay the deletion of the IngotMachine. A host
// claimed in that time would be installed, fenced and cleaned for nothing.
func (s *scope) deletedOwner() string {
	switch {
	case !s.owner.DeletionTimestamp.IsZero():
		return "Machine " + s.owner.Name + " is being deleted"
	case !s.cluster.DeletionTimestamp.IsZero():
		return "Cluster " + s.cluster.Name + " is being deleted"
	}
	return ""
}

// failureDomain returns the requested failure domain: the Machine's, else the IngotMachine's,
// which only contract v1beta1 sets (M17, M18).
func (s *scope) failureDomain() string {
	return cmp.Or(s.owner.Spec.FailureDomain, s.machine.Spec.FailureDomain)
}

// findImage reads the IngotImage of spec.imageRef. The selection needs its architecture, and the
// claim copies the rest (I3).
func (r *Reconciler) findImage(ctx context.Context, s *scope) (outcome, error) {
	ref := s.machine.Spec.ImageRef
	if ref == nil || s.catalogImage != nil {
		return next, nil
	}
	var err error
	s.catalogImage, err = kubeutil.Find[infrav1.IngotImage](ctx, r.Client, "", ref.Name)
	if err != nil {
		return next, err
	}
	if s.catalogImage == nil {
		r.refuse(s, infrav1.ReasonImageMissing, fmt.Sprintf("IngotImage %s of spec.imageRef does not exist. Create it: Ingot then selects a host.", ref.Name))
		return r.retryLater(), nil
	}
	return next, nil
}

func (s *scope) architecture() string {
	if s.catalogImage == nil {
		return ""
	}
	return s.catalogImage.Spec.Architecture
}

func (s *scope) image() infrav1.Image {
	if s.catalogImage == nil {
		return s.machine.Spec.Image
	}
	return s.catalogImage.Spec.Image()
}

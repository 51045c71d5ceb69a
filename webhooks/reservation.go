// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotreservation,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotreservations,versions=v1beta2,name=validation.ingotreservation.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// reservationValidator admits IngotReservations.
type reservationValidator struct{}

var _ admission.Validator[*v1beta2.IngotReservation] = reservationValidator{}

// ValidateCreate admits a new reservation whose selectors can be used.
func (reservationValidator) ValidateCreate(_ context.Context, r *v1beta2.IngotReservation) (admission.Warnings, error) {
	return nil, refusal("IngotReservation", r, checkReservation(v1beta2.IngotReservationSpec{}, r.Spec))
}

// ValidateUpdate admits a change: a person may give a Cluster more, less, or more time.
// Of selectors only what changes is looked at, so that a wrong one is no reason to
// refuse a mark or a finalizer.
func (reservationValidator) ValidateUpdate(_ context.Context, before, after *v1beta2.IngotReservation) (admission.Warnings, error) {
	return nil, refusal("IngotReservation", after, checkReservation(before.Spec, after.Spec))
}

// ValidateDelete admits: that is how a promise is taken back.
func (reservationValidator) ValidateDelete(context.Context, *v1beta2.IngotReservation) (admission.Warnings, error) {
	return nil, nil
}

// checkReservation refuses selectors that could never be used, in what differs.
func checkReservation(before, after v1beta2.IngotReservationSpec) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(before.HostSelector, after.HostSelector) {
		errs = append(errs, checkLabelSelector(path.Child("hostSelector"), after.HostSelector)...)
	}
	if !equality.Semantic.DeepEqual(before.ControlPlaneSelector, after.ControlPlaneSelector) {
		errs = append(errs, checkLabelSelector(path.Child("controlPlaneSelector"), after.ControlPlaneSelector)...)
	}
	for i, g := range after.Groups {
		stood := slices.ContainsFunc(before.Groups, func(b v1beta2.ReservedGroup) bool {
			return equality.Semantic.DeepEqual(b.HostSelector, g.HostSelector)
		})
		if !stood {
			errs = append(errs, checkHostSelector(path.Child("groups").Index(i).Child("hostSelector"), g.HostSelector)...)
		}
	}
	return errs
}

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

// reservationValidator validates the selectors and disk sizes of IngotReservations.
type reservationValidator struct {
	allowDelete[*v1beta2.IngotReservation]
}

// ValidateCreate implements admission.Validator.
func (reservationValidator) ValidateCreate(_ context.Context, r *v1beta2.IngotReservation) (admission.Warnings, error) {
	return nil, invalid("IngotReservation", r, checkReservation(v1beta2.IngotReservationSpec{}, r.Spec))
}

// ValidateUpdate checks only what changed, so that an invalid stored selector does not block
// labels or finalizers.
func (reservationValidator) ValidateUpdate(_ context.Context, before, after *v1beta2.IngotReservation) (admission.Warnings, error) {
	return nil, invalid("IngotReservation", after, checkReservation(before.Spec, after.Spec))
}

func checkReservation(before, after v1beta2.IngotReservationSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := append(checkChangedSelector(path.Child("hostSelector"), before.HostSelector, after.HostSelector),
		checkChangedSelector(path.Child("controlPlaneSelector"), before.ControlPlaneSelector, after.ControlPlaneSelector)...)
	for i, g := range after.Groups {
		group := path.Child("groups").Index(i)
		if slices.ContainsFunc(before.Groups, func(b v1beta2.ReservedGroup) bool { return equality.Semantic.DeepEqual(b, g) }) {
			continue
		}
		errs = slices.Concat(errs, checkHostSelector(group.Child("hostSelector"), g.HostSelector),
			checkHints(group.Child("rootDeviceHints"), g.RootDeviceHints), checkRAID(group.Child("softwareRAID"), g.SoftwareRAID))
	}
	return errs
}

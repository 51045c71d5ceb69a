// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothardware,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,versions=v1beta2,name=validation.ingothardware.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// hardwareValidator admits IngotHardware, which only Ingot writes: selection and
// addresses rest on it.
type hardwareValidator struct {
	guard
}

var _ admission.Validator[*v1beta2.IngotHardware] = &hardwareValidator{}

// ValidateCreate admits the manager, and those who may restore.
func (v *hardwareValidator) ValidateCreate(ctx context.Context, hardware *v1beta2.IngotHardware) (admission.Warnings, error) {
	ok, err := v.mayCreate(ctx, "ingothardwares", hardware)
	if err != nil || ok {
		return nil, err
	}
	return nil, refusal("IngotHardware", hardware, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "name"), hardware.Name, fmt.Sprintf("only Ingot creates IngotHardware, when it inspects the IngotHost of "+
			"that name; create the IngotHost, or restore as somebody with the RBAC verb %s on ingothardwares", restoreVerb))})
}

// ValidateUpdate lets only the manager change the facts; labels, annotations,
// owners and finalizers are anybody's.
func (v *hardwareValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotHardware) (admission.Warnings, error) {
	list, err := changes(field.NewPath("spec"), before.Spec, after.Spec)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := v.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return nil, refusal("IngotHardware", after, refuseChanges(list, fmt.Sprintf(
		"only Ingot's manager changes what was inspected; annotate the IngotHost with %s for a new inspection", inventory.CommandText(v1beta2.InspectAnnotation))))
}

// ValidateDelete admits: garbage collection deletes the hardware with its host.
func (v *hardwareValidator) ValidateDelete(context.Context, *v1beta2.IngotHardware) (admission.Warnings, error) {
	return nil, nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,versions=v1beta2,name=validation.ingotmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates,versions=v1beta2,name=validation.ingotmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// machineValidator admits IngotMachines.
type machineValidator struct {
	guard
}

var _ admission.Validator[*v1beta2.IngotMachine] = &machineValidator{}

// ValidateCreate admits a new machine. A providerID in it is a claim on a host
// (I1), so that only those who may restore can create it.
func (v *machineValidator) ValidateCreate(ctx context.Context, machine *v1beta2.IngotMachine) (admission.Warnings, error) {
	errs := checkHostSelector(field.NewPath("spec", "hostSelector"), machine.Spec.HostSelector)
	if machine.Spec.ProviderID != "" {
		errs = append(errs, checkProviderID(machine)...)
		ok, err := v.mayCreate(ctx, "ingotmachines", machine)
		if err != nil {
			return nil, err
		}
		if !ok {
			errs = append(errs, field.Invalid(field.NewPath("spec", "providerID"), machine.Spec.ProviderID, fmt.Sprintf(
				"only Ingot chooses the host; leave it out, or restore as somebody with the RBAC verb %s on ingotmachines", restoreVerb)))
		}
	}
	return cleaningWarning("spec.cleaning", machine.Spec), refusal("IngotMachine", machine, errs)
}

// ValidateUpdate keeps the spec as it is: a server is not changed under a
// machine's feet, it is replaced (M64: every field but providerID is immutable).
func (v *machineValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachine) (admission.Warnings, error) {
	was, is := before.Spec.DeepCopy(), after.Spec.DeepCopy()
	was.ProviderID, is.ProviderID = "", ""
	list, err := changes(field.NewPath("spec"), was, is)
	if err != nil {
		return nil, err
	}
	errs := refuseChanges(list, "is immutable: a machine is installed once; roll out a new IngotMachineTemplate, which replaces the Machine")
	if before.Spec.ProviderID != after.Spec.ProviderID {
		manager, err := v.isManager(ctx)
		if err != nil {
			return nil, err
		}
		if !manager {
			errs = append(errs, field.Invalid(field.NewPath("spec", "providerID"), after.Spec.ProviderID, fmt.Sprintf(
				"only Ingot's manager changes it, from %q; set it back, and delete the Machine to release its host", before.Spec.ProviderID)))
		} else if after.Spec.ProviderID != "" {
			errs = append(errs, checkProviderID(after)...)
		}
	}
	return nil, refusal("IngotMachine", after, errs)
}

// ValidateDelete admits: the controller waits for the Machine, so that drain
// comes first (I7).
func (v *machineValidator) ValidateDelete(context.Context, *v1beta2.IngotMachine) (admission.Warnings, error) {
	return nil, nil
}

// checkProviderID refuses a host of another namespace: a machine claims hosts of
// its own only (design §3).
func checkProviderID(machine *v1beta2.IngotMachine) field.ErrorList {
	path := field.NewPath("spec", "providerID")
	id, err := v1beta2.ParseProviderID(machine.Spec.ProviderID)
	if err != nil {
		return field.ErrorList{field.Invalid(path, machine.Spec.ProviderID, err.Error()+"; leave it out")}
	}
	if id.Namespace != machine.Namespace {
		return field.ErrorList{field.Invalid(path, machine.Spec.ProviderID,
			fmt.Sprintf("must name a host of namespace %s; restore the machine into the namespace of its host", machine.Namespace))}
	}
	return nil
}

// cleaningWarning says what leaving the disks as they are means later (I12).
func cleaningWarning(path string, spec v1beta2.IngotMachineSpec) admission.Warnings {
	if spec.Cleaning != v1beta2.CleaningNone {
		return nil
	}
	return admission.Warnings{path + ": with None the disks keep their data when the host is released, and the host then serves " +
		"only the same cluster; use Metadata to free it for others"}
}

// machineTemplateValidator admits IngotMachineTemplates.
type machineTemplateValidator struct{}

var _ admission.Validator[*v1beta2.IngotMachineTemplate] = &machineTemplateValidator{}

func checkMachineTemplate(template *v1beta2.IngotMachineTemplate) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := template.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))
	return append(errs, checkHostSelector(path.Child("spec", "hostSelector"), template.Spec.Template.Spec.HostSelector)...)
}

// ValidateCreate admits a new template.
func (v *machineTemplateValidator) ValidateCreate(_ context.Context, template *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	return cleaningWarning("spec.template.spec.cleaning", template.Spec.Template.Spec),
		refusal("IngotMachineTemplate", template, checkMachineTemplate(template))
}

// ValidateUpdate keeps spec.template.spec as it is, but for the dry runs by which
// the topology controller finds out whether it must make a new one (M35–M37).
func (v *machineTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	errs := checkMachineTemplate(after)
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out whether this is a dry run: %w", err)
	}
	if !topology.IsDryRunRequest(req, after) {
		list, err := changes(field.NewPath("spec", "template", "spec"), before.Spec.Template.Spec, after.Spec.Template.Spec)
		if err != nil {
			return nil, err
		}
		errs = append(errs, refuseChanges(list, immutableTemplate)...)
	}
	return nil, refusal("IngotMachineTemplate", after, errs)
}

// immutableTemplate is what changing a template is answered with.
const immutableTemplate = "is immutable: machines made from the template would differ from it; create a template of another name and refer to that"

// ValidateDelete admits.
func (v *machineTemplateValidator) ValidateDelete(context.Context, *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	return nil, nil
}

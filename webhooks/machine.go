// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/networkdata"
	"github.com/ingot-metal/ingot/webhooks/normalize"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachine,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,versions=v1beta2,name=validation.ingotmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// failurePolicy=ignore is safe, because the controller waits for the Machine anyway (I7).
// +kubebuilder:webhook:verbs=delete,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachine,mutating=false,failurePolicy=ignore,timeoutSeconds=5,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,versions=v1beta2,name=deletion.ingotmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates,versions=v1beta2,name=validation.ingotmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// machineValidator validates IngotMachines.
type machineValidator struct {
	guard
	checker warnings.Checker
	// live reads Machines from the API server, because the cache may not know a recent deletion.
	live client.Reader
}

// ValidateCreate allows a providerID, which is a claim on a host (I1), only to users that may
// restore.
func (v *machineValidator) ValidateCreate(ctx context.Context, machine *v1beta2.IngotMachine) (admission.Warnings, error) {
	errs := slices.Concat(checkHostSelector(field.NewPath("spec", "hostSelector"), machine.Spec.HostSelector),
		checkChangedDisks(field.NewPath("spec"), v1beta2.IngotMachineSpec{}, machine.Spec),
		networkdata.Check(field.NewPath("spec", "networkData"), machine.Spec.NetworkData))
	if machine.Spec.ProviderID != "" {
		errs = append(errs, checkProviderID(machine)...)
		ok, err := v.mayCreate(ctx, "ingotmachines", machine)
		if err != nil {
			return nil, err
		}
		if !ok {
			errs = append(errs, field.Invalid(field.NewPath("spec", "providerID"), machine.Spec.ProviderID, fmt.Sprintf(
				"only Ingot chooses the host; remove it, or restore as a user with the RBAC verb %s on ingotmachines", restoreVerb)))
		}
	}
	if err := invalid("IngotMachine", machine, errs); err != nil {
		return nil, err
	}
	return v.warnings(ctx, machine), nil
}

// warnings warns about requirements that no host meets. It skips machines that have a host, and
// those from a template: creating the template already caused the warning.
func (v *machineValidator) warnings(ctx context.Context, machine *v1beta2.IngotMachine) admission.Warnings {
	out := admission.Warnings(unknownAnnotations(nil, machine))
	if _, cloned := machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; cloned {
		return out
	}
	path := field.NewPath("spec")
	if out = append(out, cleaningWarning(path, machine.Spec)...); machine.Spec.ProviderID != "" {
		return out
	}
	return append(out, v.checker.Machine(ctx, machine.Namespace, path, machine.Spec)...)
}

// ValidateUpdate rejects changes of the spec: a change requires another machine. Mutable are (M64)
// providerID, for Ingot only; cleaning, which Ingot copies to the claim; and hostSelector, once the
// machine has a host. Cluster API changes cleaning and hostSelector in place.
func (v *machineValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachine) (admission.Warnings, error) {
	was, is := before.Spec.DeepCopy(), after.Spec.DeepCopy()
	was.ProviderID, is.ProviderID = "", ""
	errs := checkMutable(before, was, is)
	normalize.Machine(was) // defaulting is not a change by the user
	list, err := changes(field.NewPath("spec"), was, is)
	if err != nil {
		return nil, err
	}
	errs = append(errs, invalidChanges(list, "is immutable, because Ingot installs a machine once; roll out a new IngotMachineTemplate, which replaces the Machine")...)
	if before.Spec.ProviderID != after.Spec.ProviderID {
		manager, err := v.isManager(ctx)
		if err != nil {
			return nil, err
		}
		if !manager {
			errs = append(errs, field.Invalid(field.NewPath("spec", "providerID"), after.Spec.ProviderID, fmt.Sprintf(
				"only Ingot changes it; set it back to %q, and delete the Machine to release its host", before.Spec.ProviderID)))
		} else if after.Spec.ProviderID != "" {
			errs = append(errs, checkProviderID(after)...)
		}
	}
	return unknownAnnotations(before.Annotations, after), invalid("IngotMachine", after, errs)
}

// checkMutable checks the mutable fields of is, and then equalizes them in was and is. hostSelector
// is immutable until the machine has a host.
func checkMutable(before *v1beta2.IngotMachine, was, is *v1beta2.IngotMachineSpec) field.ErrorList {
	is.Cleaning = was.Cleaning
	if before.Spec.ProviderID == "" || equality.Semantic.DeepEqual(was.HostSelector, is.HostSelector) {
		return nil
	}
	errs := checkHostSelector(field.NewPath("spec", "hostSelector"), is.HostSelector)
	is.HostSelector = was.HostSelector
	return errs
}

// ValidateDelete rejects the deletion while the Machine exists and refers to the IngotMachine:
// Cluster API would not drain the Node, and a deletion cannot be undone. Cluster API deletes the
// IngotMachine only after the Machine. If the Machine cannot be read, the deletion is allowed,
// because the controller waits for the Machine anyway (I7).
func (v *machineValidator) ValidateDelete(ctx context.Context, machine *v1beta2.IngotMachine) (admission.Warnings, error) {
	if isDeletedForMove(machine) {
		errs, err := checkMoveInProgress(ctx, v.live, machine)
		if err != nil {
			return nil, err
		}
		return nil, invalid("IngotMachine", machine, errs)
	}
	if !machine.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	name := machineOwner(machine)
	if name == "" {
		return nil, nil
	}
	owner := &clusterv1.Machine{}
	err := v.live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, owner)
	if err != nil || !owner.DeletionTimestamp.IsZero() || !inventory.RefersToMachine(owner, machine) {
		return nil, nil
	}
	return nil, invalid("IngotMachine", machine, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "ownerReferences"), owner.Name, fmt.Sprintf(
			"this Machine still exists, and Cluster API would not drain its Node; delete the Machine instead: kubectl delete machine -n %s %s", owner.Namespace, owner.Name))})
}

// machineOwner returns the name of the Machine that owns machine, or "".
func machineOwner(machine *v1beta2.IngotMachine) string {
	for _, ref := range machine.OwnerReferences {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return ref.Name
		}
	}
	return ""
}

// checkProviderID rejects a malformed providerID, and a host of another namespace.
func checkProviderID(machine *v1beta2.IngotMachine) field.ErrorList {
	path := field.NewPath("spec", "providerID")
	id, err := v1beta2.ParseProviderID(machine.Spec.ProviderID)
	if err != nil {
		return field.ErrorList{field.Invalid(path, machine.Spec.ProviderID, err.Error()+"; remove it")}
	}
	if id.Namespace != machine.Namespace {
		return field.ErrorList{field.Invalid(path, machine.Spec.ProviderID,
			fmt.Sprintf("must name a host of namespace %s; restore the machine into the namespace of its host", machine.Namespace))}
	}
	return nil
}

func cleaningWarning(path *field.Path, spec v1beta2.IngotMachineSpec) admission.Warnings {
	if spec.Cleaning != v1beta2.CleaningNone {
		return nil
	}
	return admission.Warnings{noCleaningWarning(path.Child("cleaning").String())}
}

// machineTemplateValidator validates IngotMachineTemplates.
type machineTemplateValidator struct {
	allowDelete[*v1beta2.IngotMachineTemplate]
	checker warnings.Checker
}

// checkMachineTemplate rejects invalid values in the fields that differ from before.
func checkMachineTemplate(before, after v1beta2.IngotMachineTemplateResource) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := checkTemplateMetadata(path.Child("metadata"), before.ObjectMeta, after.ObjectMeta)
	if !equality.Semantic.DeepEqual(before.Spec.HostSelector, after.Spec.HostSelector) {
		errs = append(errs, checkHostSelector(path.Child("spec", "hostSelector"), after.Spec.HostSelector)...)
	}
	errs = append(errs, checkChangedDisks(path.Child("spec"), before.Spec, after.Spec)...)
	if !equality.Semantic.DeepEqual(before.Spec.NetworkData, after.Spec.NetworkData) {
		errs = append(errs, networkdata.Check(path.Child("spec", "networkData"), after.Spec.NetworkData)...)
	}
	return errs
}

// checkTemplateMetadata rejects invalid labels and annotations if they differ from before.
func checkTemplateMetadata(path *field.Path, before, after clusterv1.ObjectMeta) field.ErrorList {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return after.Validate(path)
}

func (v *machineTemplateValidator) ValidateCreate(ctx context.Context, template *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	resource := template.Spec.Template
	errs := checkMachineTemplate(v1beta2.IngotMachineTemplateResource{}, resource)
	if err := invalid("IngotMachineTemplate", template, errs); err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "template", "spec")
	out := append(admission.Warnings(unknownAnnotations(nil, template)), cleaningWarning(path, resource.Spec)...)
	if resource.Spec.Hostname != "" {
		out = append(out, fmt.Sprintf("%s: %q becomes the name of every machine made from the template; remove it: each machine then has the name of its Machine",
			path.Child("hostname"), resource.Spec.Hostname))
	}
	out = append(out, singleMachineWarnings(path.Child("networkData"), resource.Spec.NetworkData)...)
	return append(out, v.checker.Machine(ctx, template.Namespace, path, resource.Spec)...), nil
}

// ValidateUpdate rejects changes of spec.template.spec, except in dry runs of the topology
// controller (M35–M37).
func (v *machineTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	errs := checkMachineTemplate(before.Spec.Template, after.Spec.Template)
	was := before.Spec.Template.Spec.DeepCopy()
	normalize.Machine(was)
	frozen, err := checkTemplateUnchanged(ctx, after, was, &after.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return unknownAnnotations(before.Annotations, after), invalid("IngotMachineTemplate", after, append(errs, frozen...))
}

// checkTemplateUnchanged rejects changes of spec.template.spec, except in a dry run that also has
// the annotation of the topology controller.
func checkTemplateUnchanged(ctx context.Context, template client.Object, before, after any) (field.ErrorList, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if topology.IsDryRunRequest(req, template) {
		return nil, nil
	}
	list, err := changes(field.NewPath("spec", "template", "spec"), before, after)
	if err != nil {
		return nil, err
	}
	return invalidChanges(list, immutableTemplate), nil
}

const immutableTemplate = "is immutable, because existing objects would differ from their template; create a template with another name and use that"

// checkMoveInProgress rejects the annotation of clusterctl move unless every Cluster of the
// namespace is paused: clusterctl pauses them before it copies an object, and deletes them too.
func checkMoveInProgress(ctx context.Context, reader client.Reader, object client.Object) (field.ErrorList, error) {
	clusters := &clusterv1.ClusterList{}
	err := reader.List(ctx, clusters, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy)
	if meta.IsNoMatchError(err) {
		return nil, nil // Cluster API is not installed
	}
	if err != nil {
		return nil, fmt.Errorf("list the Clusters of namespace %s: %w", object.GetNamespace(), err)
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; !ptr.Deref(cluster.Spec.Paused, false) {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(clusterctlv1.DeleteForMoveAnnotation), fmt.Sprintf(
				"only clusterctl move sets this annotation, after it pauses every Cluster of the namespace, but Cluster %s is not paused; remove the annotation; to release a host, delete its Machine",
				cluster.Name))}, nil
		}
	}
	return nil, nil
}

// singleMachineWarnings warns about values in a template that suit only one machine.
func singleMachineWarnings(path *field.Path, data *v1beta2.NetworkData) admission.Warnings {
	if data == nil {
		return nil
	}
	var out admission.Warnings
	config := func(at *field.Path, link v1beta2.LinkConfig) {
		for i, address := range link.Addresses {
			if address.Source == v1beta2.AddressStatic {
				out = append(out, fmt.Sprintf("%s: every machine made from the template gets %s; use source Recorded, Reservation or Pool, or create only one machine",
					at.Child("addresses").Index(i).Child("address"), address.Address))
			}
		}
	}
	for i := range data.Ethernets {
		at := path.Child("ethernets").Index(i)
		if mac := data.Ethernets[i].NIC.MAC; mac != "" {
			out = append(out, fmt.Sprintf("%s: the machines of the template can only use the server with %s; select the interface by bootNIC, pci or driver",
				at.Child("nic", "mac"), mac))
		}
		config(at, data.Ethernets[i].LinkConfig)
	}
	for i := range data.Bonds {
		config(path.Child("bonds").Index(i), data.Bonds[i].LinkConfig)
	}
	for i := range data.VLANs {
		config(path.Child("vlans").Index(i), data.VLANs[i].LinkConfig)
	}
	return out
}

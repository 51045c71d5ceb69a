// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
// The controller waits for the Machine whether or not this asks it (I7): nothing is held up for want of an answer.
// +kubebuilder:webhook:verbs=delete,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachine,mutating=false,failurePolicy=ignore,timeoutSeconds=5,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,versions=v1beta2,name=deletion.ingotmachine.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotmachinetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotmachinetemplates,versions=v1beta2,name=validation.ingotmachinetemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// machineValidator admits IngotMachines.
type machineValidator struct {
	guard
	outlook warnings.Outlook
	// live reads Machines from the API server: one that was deleted a moment ago must not
	// be taken for one that lives.
	live client.Reader
}

var _ admission.Validator[*v1beta2.IngotMachine] = &machineValidator{}

// ValidateCreate admits a new machine. A providerID in it is a claim on a host
// (I1), so that only those who may restore can create it.
func (v *machineValidator) ValidateCreate(ctx context.Context, machine *v1beta2.IngotMachine) (admission.Warnings, error) {
	errs := append(checkHostSelector(field.NewPath("spec", "hostSelector"), machine.Spec.HostSelector),
		networkdata.Check(field.NewPath("spec", "networkData"), machine.Spec.NetworkData)...)
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
	if err := refusal("IngotMachine", machine, errs); err != nil {
		return nil, err
	}
	return v.warnings(ctx, machine), nil
}

// warnings tells what no host can serve. A machine that was made from a template, or
// has its host already, is not warned of: the template was, and Cluster API makes
// them by the thousand.
func (v *machineValidator) warnings(ctx context.Context, machine *v1beta2.IngotMachine) admission.Warnings {
	out := admission.Warnings(strayCommands(nil, machine))
	if _, cloned := machine.Annotations[clusterv1.TemplateClonedFromNameAnnotation]; cloned {
		return out
	}
	path := field.NewPath("spec")
	if out = append(out, cleaningWarning(path, machine.Spec)...); machine.Spec.ProviderID != "" {
		return out
	}
	return append(out, v.outlook.Machine(ctx, machine.Namespace, path, machine.Spec)...)
}

// ValidateUpdate keeps the spec as it is: a server is not changed under a
// machine's feet, it is replaced. Mutable are (M64) providerID, which Ingot writes,
// cleaning, which the claim follows, and hostSelector, which means nothing any more
// once there is a host: by these Cluster API updates machines in place.
func (v *machineValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachine) (admission.Warnings, error) {
	was, is := before.Spec.DeepCopy(), after.Spec.DeepCopy()
	was.ProviderID, is.ProviderID = "", ""
	errs := liveChanges(before, was, is)
	normalize.Machine(was) // so that a default of ours is no change of theirs
	list, err := changes(field.NewPath("spec"), was, is)
	if err != nil {
		return nil, err
	}
	errs = append(errs, refuseChanges(list, "is immutable: a machine is installed once; roll out a new IngotMachineTemplate, which replaces the Machine")...)
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
	return strayCommands(before.Annotations, after), refusal("IngotMachine", after, errs)
}

// liveChanges takes out of two specs what may change between them, once it is checked.
// Before there is a host, hostSelector is what one is chosen by, and stays.
func liveChanges(before *v1beta2.IngotMachine, was, is *v1beta2.IngotMachineSpec) field.ErrorList {
	is.Cleaning = was.Cleaning
	if before.Spec.ProviderID == "" || equality.Semantic.DeepEqual(was.HostSelector, is.HostSelector) {
		return nil
	}
	errs := checkHostSelector(field.NewPath("spec", "hostSelector"), is.HostSelector)
	is.HostSelector = was.HostSelector
	return errs
}

// ValidateDelete refuses while the Machine lives: Cluster API does not drain the Node of
// a Machine whose InfraMachine is being deleted already, and no one can take a deletion
// back. Cluster API itself deletes the IngotMachine of a Machine that is being deleted, or
// that was never made; a namespace's end, garbage collection and clusterctl pass alike, and
// so does one that the Machine does not refer to. Where the Machine cannot be read it
// admits: the controller waits anyway (I7).
func (v *machineValidator) ValidateDelete(ctx context.Context, machine *v1beta2.IngotMachine) (admission.Warnings, error) {
	if isLetGo(machine) {
		errs, err := moveOnly(ctx, v.live, machine)
		if err != nil {
			return nil, err
		}
		return nil, refusal("IngotMachine", machine, errs)
	}
	if !machine.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	name := ownerOf(machine)
	if name == "" {
		return nil, nil
	}
	owner := &clusterv1.Machine{}
	err := v.live.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, owner)
	if err != nil || !owner.DeletionTimestamp.IsZero() || !inventory.RefersTo(owner, machine) {
		return nil, nil // what is not known is no reason to refuse
	}
	return nil, refusal("IngotMachine", machine, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "ownerReferences"), owner.Name, fmt.Sprintf(
			"this Machine lives, and Cluster API would not drain its Node any more; delete the Machine instead: kubectl delete machine -n %s %s", owner.Namespace, owner.Name))})
}

// ownerOf returns the name of the Machine that owns machine; empty: none does yet.
func ownerOf(machine *v1beta2.IngotMachine) string {
	for _, ref := range machine.OwnerReferences {
		if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group == clusterv1.GroupVersion.Group && ref.Kind == "Machine" {
			return ref.Name
		}
	}
	return ""
}

// checkProviderID refuses a host of another namespace: a machine claims hosts of
// its own only.
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
func cleaningWarning(path *field.Path, spec v1beta2.IngotMachineSpec) admission.Warnings {
	if spec.Cleaning != v1beta2.CleaningNone {
		return nil
	}
	return admission.Warnings{keptData(path.Child("cleaning").String())}
}

// machineTemplateValidator admits IngotMachineTemplates.
type machineTemplateValidator struct {
	outlook warnings.Outlook
}

var _ admission.Validator[*v1beta2.IngotMachineTemplate] = &machineTemplateValidator{}

// checkMachineTemplate refuses what is wrong in what differs from before.
func checkMachineTemplate(before, after v1beta2.IngotMachineTemplateResource) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := checkTemplateMetadata(path.Child("metadata"), before.ObjectMeta, after.ObjectMeta)
	if !equality.Semantic.DeepEqual(before.Spec.HostSelector, after.Spec.HostSelector) {
		errs = append(errs, checkHostSelector(path.Child("spec", "hostSelector"), after.Spec.HostSelector)...)
	}
	if !equality.Semantic.DeepEqual(before.Spec.NetworkData, after.Spec.NetworkData) {
		errs = append(errs, networkdata.Check(path.Child("spec", "networkData"), after.Spec.NetworkData)...)
	}
	return errs
}

// checkTemplateMetadata refuses labels and annotations that no object could have.
func checkTemplateMetadata(path *field.Path, before, after clusterv1.ObjectMeta) field.ErrorList {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return after.Validate(path)
}

// ValidateCreate admits a new template.
func (v *machineTemplateValidator) ValidateCreate(ctx context.Context, template *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	resource := template.Spec.Template
	errs := checkMachineTemplate(v1beta2.IngotMachineTemplateResource{}, resource)
	if err := refusal("IngotMachineTemplate", template, errs); err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "template", "spec")
	out := append(admission.Warnings(strayCommands(nil, template)), cleaningWarning(path, resource.Spec)...)
	if resource.Spec.Hostname != "" {
		out = append(out, fmt.Sprintf("%s: %q becomes the name of every machine made from the template; leave it out, each then has the name of its Machine",
			path.Child("hostname"), resource.Spec.Hostname))
	}
	out = append(out, onlyOnce(path.Child("networkData"), resource.Spec.NetworkData)...)
	return append(out, v.outlook.Machine(ctx, template.Namespace, path, resource.Spec)...), nil
}

// ValidateUpdate keeps spec.template.spec as it is, but for the dry runs by which
// the topology controller finds out whether it must make a new one (M35–M37).
func (v *machineTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	errs := checkMachineTemplate(before.Spec.Template, after.Spec.Template)
	was := before.Spec.Template.Spec.DeepCopy()
	normalize.Machine(was)
	frozen, err := keepTemplate(ctx, after, was, &after.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return strayCommands(before.Annotations, after), refusal("IngotMachineTemplate", after, append(errs, frozen...))
}

// keepTemplate refuses any change of spec.template.spec, unless the topology
// controller asks what would become of it: a dry run that carries its annotation.
// One of both is not enough.
func keepTemplate(ctx context.Context, template client.Object, before, after any) (field.ErrorList, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("find out whether this is a dry run: %w", err)
	}
	if topology.IsDryRunRequest(req, template) {
		return nil, nil
	}
	list, err := changes(field.NewPath("spec", "template", "spec"), before, after)
	if err != nil {
		return nil, err
	}
	return refuseChanges(list, immutableTemplate), nil
}

// immutableTemplate is what changing a template is answered with.
const immutableTemplate = "is immutable: what was made from the template would differ from it; create a template of another name and refer to that"

// ValidateDelete admits.
func (v *machineTemplateValidator) ValidateDelete(context.Context, *v1beta2.IngotMachineTemplate) (admission.Warnings, error) {
	return nil, nil
}

// moveOnly refuses that an object is taken away without a word (see isLetGo) where no move is
// under way: clusterctl pauses every Cluster of the namespace before it copies anything, and
// deletes the Clusters too.
func moveOnly(ctx context.Context, reader client.Reader, object client.Object) (field.ErrorList, error) {
	clusters := &clusterv1.ClusterList{}
	err := reader.List(ctx, clusters, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy) // nothing of it is changed
	if meta.IsNoMatchError(err) {
		return nil, nil // Cluster API is not installed, so that there is no Cluster
	}
	if err != nil {
		return nil, fmt.Errorf("clusters of namespace %s: %w", object.GetNamespace(), err)
	}
	for i := range clusters.Items {
		if cluster := &clusters.Items[i]; cluster.Spec.Paused == nil || !*cluster.Spec.Paused {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(clusterctlv1.DeleteForMoveAnnotation), fmt.Sprintf(
				"only clusterctl move sets this, when every Cluster of the namespace is paused, and Cluster %s is not: remove the annotation; to release a host, delete its Machine",
				cluster.Name))}, nil
		}
	}
	return nil, nil
}

// onlyOnce warns of what in a template can be right for one machine only.
func onlyOnce(path *field.Path, data *v1beta2.NetworkData) admission.Warnings {
	if data == nil {
		return nil
	}
	var out admission.Warnings
	config := func(at *field.Path, link v1beta2.LinkConfig) {
		for i, address := range link.Addresses {
			if address.Source == v1beta2.AddressStatic {
				out = append(out, fmt.Sprintf("%s: every machine made from the template gets %s; use source Recorded, Reservation or Pool, or make only one",
					at.Child("addresses").Index(i).Child("address"), address.Address))
			}
		}
	}
	for i := range data.Ethernets {
		at := path.Child("ethernets").Index(i)
		if mac := data.Ethernets[i].NIC.MAC; mac != "" {
			out = append(out, fmt.Sprintf("%s: only the server with %s can be chosen for the machines of the template; choose the interface by bootNIC, pci or driver",
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

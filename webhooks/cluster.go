// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/webhooks/normalize"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,versions=v1beta2,name=validation.ingotcluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclustertemplates,versions=v1beta2,name=validation.ingotclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// clusterValidator admits IngotClusters.
type clusterValidator struct {
	outlook warnings.Outlook
}

var _ admission.Validator[*v1beta2.IngotCluster] = &clusterValidator{}

// checkClusterSpec refuses what is wrong in what differs from before.
func checkClusterSpec(path *field.Path, before, after v1beta2.IngotClusterSpec) field.ErrorList {
	var errs field.ErrorList
	if !equality.Semantic.DeepEqual(before.HostSelector, after.HostSelector) {
		errs = append(errs, checkLabelSelector(path.Child("hostSelector"), after.HostSelector)...)
	}
	if !equality.Semantic.DeepEqual(before.ControlPlaneSelector, after.ControlPlaneSelector) {
		errs = append(errs, checkLabelSelector(path.Child("controlPlaneSelector"), after.ControlPlaneSelector)...)
	}
	return errs
}

// endpointWarnings tell of half an endpoint, with which nothing starts (C06: both
// parts are optional), and of one that hosts are given or have, where that is new.
func endpointWarnings(ctx context.Context, o warnings.Outlook, to endpointChange) admission.Warnings {
	if to.before == to.after {
		return nil
	}
	var out admission.Warnings
	missing := ""
	switch {
	case to.after.Host != "" && to.after.Port == 0:
		missing = "port"
	case to.after.Host == "" && to.after.Port != 0:
		missing = "host"
	}
	path := to.spec.Child("controlPlaneEndpoint")
	if missing != "" {
		out = append(out, fmt.Sprintf("%s: is unset; give it, until then the cluster waits", path.Child(missing)))
	}
	if to.after.Host == to.before.Host {
		return out
	}
	return append(out, o.Endpoint(ctx, to.namespace, path.Child("host"), to.after.Host)...)
}

// endpointChange is an endpoint that is new, or another. spec leads to the cluster's spec.
type endpointChange struct {
	namespace     string
	spec          *field.Path
	before, after v1beta2.APIEndpoint
}

// ValidateCreate admits a new cluster.
func (v *clusterValidator) ValidateCreate(ctx context.Context, cluster *v1beta2.IngotCluster) (admission.Warnings, error) {
	path := field.NewPath("spec")
	if err := refusal("IngotCluster", cluster, checkClusterSpec(path, v1beta2.IngotClusterSpec{}, cluster.Spec)); err != nil {
		return nil, err
	}
	out := append(admission.Warnings(strayCommands(nil, cluster)), endpointWarnings(ctx, v.outlook,
		endpointChange{namespace: cluster.Namespace, spec: path, after: cluster.Spec.ControlPlaneEndpoint})...)
	return append(out, v.outlook.Cluster(ctx, cluster.Namespace, path, cluster.Spec)...), nil
}

// ValidateUpdate admits a change. The failure domain label stays once the cluster
// is provisioned: failure domains of machines are values of it (I11).
func (v *clusterValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotCluster) (admission.Warnings, error) {
	path := field.NewPath("spec")
	was := before.Spec.DeepCopy()
	normalize.Cluster(was) // so that a default of ours is no change of theirs
	errs := checkClusterSpec(path, *was, after.Spec)
	provisioned := before.Status.Initialization.Provisioned
	if provisioned != nil && *provisioned && inventory.FailureDomainLabel(after) != was.FailureDomainLabel {
		errs = append(errs, field.Invalid(path.Child("failureDomainLabel"), after.Spec.FailureDomainLabel, fmt.Sprintf(
			"is immutable once the cluster is provisioned, because machines stand in the domains of %s; set it back, or create another cluster", was.FailureDomainLabel)))
	}
	if err := refusal("IngotCluster", after, errs); err != nil {
		return nil, err
	}
	if !after.DeletionTimestamp.IsZero() || isLetGo(after) {
		return nil, nil
	}
	out := append(admission.Warnings(strayCommands(before.Annotations, after)), endpointWarnings(ctx, v.outlook,
		endpointChange{namespace: after.Namespace, spec: path, before: was.ControlPlaneEndpoint, after: after.Spec.ControlPlaneEndpoint})...)
	if selectionChanged(*was, after.Spec) {
		out = append(out, v.outlook.Cluster(ctx, after.Namespace, path, after.Spec)...)
	}
	return out, nil
}

// selectionChanged says whether the cluster draws on other hosts than before, or
// divides them in another way.
func selectionChanged(before, after v1beta2.IngotClusterSpec) bool {
	before.ControlPlaneEndpoint, after.ControlPlaneEndpoint = v1beta2.APIEndpoint{}, v1beta2.APIEndpoint{}
	return !equality.Semantic.DeepEqual(before, after)
}

// ValidateDelete admits: the controller waits for the machines.
func (v *clusterValidator) ValidateDelete(context.Context, *v1beta2.IngotCluster) (admission.Warnings, error) {
	return nil, nil
}

// clusterTemplateValidator admits IngotClusterTemplates.
type clusterTemplateValidator struct {
	outlook warnings.Outlook
}

var _ admission.Validator[*v1beta2.IngotClusterTemplate] = &clusterTemplateValidator{}

// checkClusterTemplate refuses what is wrong in what differs from before.
func checkClusterTemplate(before, after v1beta2.IngotClusterTemplateResource) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := checkTemplateMetadata(path.Child("metadata"), before.ObjectMeta, after.ObjectMeta)
	return append(errs, checkClusterSpec(path.Child("spec"), before.Spec, after.Spec)...)
}

// ValidateCreate admits a new template.
func (v *clusterTemplateValidator) ValidateCreate(ctx context.Context, template *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	resource := template.Spec.Template
	errs := checkClusterTemplate(v1beta2.IngotClusterTemplateResource{}, resource)
	if err := refusal("IngotClusterTemplate", template, errs); err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "template", "spec")
	out := append(admission.Warnings(strayCommands(nil, template)), endpointWarnings(ctx, v.outlook,
		endpointChange{namespace: template.Namespace, spec: path, after: resource.Spec.ControlPlaneEndpoint})...)
	if host := resource.Spec.ControlPlaneEndpoint.Host; host != "" {
		out = append(out, fmt.Sprintf("%s: %q becomes the endpoint of every cluster made from the template; leave it out and give it in each, or by a patch of the ClusterClass",
			path.Child("controlPlaneEndpoint", "host"), host))
	}
	return append(out, v.outlook.Cluster(ctx, template.Namespace, path, resource.Spec)...), nil
}

// ValidateUpdate keeps spec.template.spec as it is, but for dry runs of the
// topology controller (M35–M37).
func (v *clusterTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	was := before.DeepCopy()
	defaultClusterTemplate(was)
	errs := checkClusterTemplate(was.Spec.Template, after.Spec.Template)
	frozen, err := keepTemplate(ctx, after, was.Spec.Template.Spec, after.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return strayCommands(before.Annotations, after), refusal("IngotClusterTemplate", after, append(errs, frozen...))
}

// ValidateDelete admits.
func (v *clusterTemplateValidator) ValidateDelete(context.Context, *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}

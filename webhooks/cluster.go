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

// clusterValidator validates IngotClusters.
type clusterValidator struct {
	allowDelete[*v1beta2.IngotCluster] // the controller waits for the machines
	checker                            warnings.Checker
}

// checkClusterSpec rejects invalid selectors in the fields that differ from before.
func checkClusterSpec(path *field.Path, before, after v1beta2.IngotClusterSpec) field.ErrorList {
	return append(checkChangedSelector(path.Child("hostSelector"), before.HostSelector, after.HostSelector),
		checkChangedSelector(path.Child("controlPlaneSelector"), before.ControlPlaneSelector, after.ControlPlaneSelector)...)
}

// endpointWarnings warns about a changed endpoint that lacks its host or port (both are optional,
// C06), and about a changed host that Ingot assigns, or has assigned, to a server.
func endpointWarnings(ctx context.Context, c warnings.Checker, to endpointChange) admission.Warnings {
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
		out = append(out, fmt.Sprintf("%s: is unset; set it: the cluster waits until then", path.Child(missing)))
	}
	if to.after.Host == to.before.Host {
		return out
	}
	return append(out, c.Endpoint(ctx, to.namespace, path.Child("host"), to.after.Host)...)
}

// endpointChange is the control plane endpoint before and after a request. spec is the path of the
// cluster's spec.
type endpointChange struct {
	namespace     string
	spec          *field.Path
	before, after v1beta2.APIEndpoint
}

func (v *clusterValidator) ValidateCreate(ctx context.Context, cluster *v1beta2.IngotCluster) (admission.Warnings, error) {
	path := field.NewPath("spec")
	if err := invalid("IngotCluster", cluster, checkClusterSpec(path, v1beta2.IngotClusterSpec{}, cluster.Spec)); err != nil {
		return nil, err
	}
	out := append(admission.Warnings(unknownAnnotations(nil, cluster)), endpointWarnings(ctx, v.checker,
		endpointChange{namespace: cluster.Namespace, spec: path, after: cluster.Spec.ControlPlaneEndpoint})...)
	return append(out, v.checker.Cluster(ctx, cluster.Namespace, path, cluster.Spec)...), nil
}

// ValidateUpdate also rejects another failureDomainLabel once the cluster is provisioned: the
// failure domains of its machines are values of that label (I11).
func (v *clusterValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotCluster) (admission.Warnings, error) {
	path := field.NewPath("spec")
	was := before.Spec.DeepCopy()
	normalize.Cluster(was) // defaulting is not a change by the user
	errs := checkClusterSpec(path, *was, after.Spec)
	provisioned := before.Status.Initialization.Provisioned
	if provisioned != nil && *provisioned && inventory.FailureDomainLabel(after) != was.FailureDomainLabel {
		errs = append(errs, field.Invalid(path.Child("failureDomainLabel"), after.Spec.FailureDomainLabel, fmt.Sprintf(
			"is immutable once the cluster is provisioned: its machines are in failure domains of %s; set it back, or create another cluster", was.FailureDomainLabel)))
	}
	if err := invalid("IngotCluster", after, errs); err != nil {
		return nil, err
	}
	if !after.DeletionTimestamp.IsZero() || isDeletedForMove(after) {
		return nil, nil
	}
	out := append(admission.Warnings(unknownAnnotations(before.Annotations, after)), endpointWarnings(ctx, v.checker,
		endpointChange{namespace: after.Namespace, spec: path, before: was.ControlPlaneEndpoint, after: after.Spec.ControlPlaneEndpoint})...)
	was.ControlPlaneEndpoint = after.Spec.ControlPlaneEndpoint // has its own warnings
	if !equality.Semantic.DeepEqual(*was, after.Spec) {
		out = append(out, v.checker.Cluster(ctx, after.Namespace, path, after.Spec)...)
	}
	return out, nil
}

// clusterTemplateValidator validates IngotClusterTemplates.
type clusterTemplateValidator struct {
	allowDelete[*v1beta2.IngotClusterTemplate]
	checker warnings.Checker
}

// checkClusterTemplate rejects invalid values in the fields that differ from before.
func checkClusterTemplate(before, after v1beta2.IngotClusterTemplateResource) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := checkTemplateMetadata(path.Child("metadata"), before.ObjectMeta, after.ObjectMeta)
	return append(errs, checkClusterSpec(path.Child("spec"), before.Spec, after.Spec)...)
}

func (v *clusterTemplateValidator) ValidateCreate(ctx context.Context, template *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	resource := template.Spec.Template
	errs := checkClusterTemplate(v1beta2.IngotClusterTemplateResource{}, resource)
	if err := invalid("IngotClusterTemplate", template, errs); err != nil {
		return nil, err
	}
	path := field.NewPath("spec", "template", "spec")
	out := append(admission.Warnings(unknownAnnotations(nil, template)), endpointWarnings(ctx, v.checker,
		endpointChange{namespace: template.Namespace, spec: path, after: resource.Spec.ControlPlaneEndpoint})...)
	if host := resource.Spec.ControlPlaneEndpoint.Host; host != "" {
		out = append(out, fmt.Sprintf("%s: %q becomes the endpoint of every cluster made from the template; remove it, and set it in each IngotCluster or by a ClusterClass patch",
			path.Child("controlPlaneEndpoint", "host"), host))
	}
	return append(out, v.checker.Cluster(ctx, template.Namespace, path, resource.Spec)...), nil
}

// ValidateUpdate rejects changes of spec.template.spec, except in dry runs of the topology
// controller (M35–M37).
func (v *clusterTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	was := before.DeepCopy()
	defaultClusterTemplate(was)
	errs := checkClusterTemplate(was.Spec.Template, after.Spec.Template)
	frozen, err := checkTemplateUnchanged(ctx, after, was.Spec.Template.Spec, after.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return unknownAnnotations(before.Annotations, after), invalid("IngotClusterTemplate", after, append(errs, frozen...))
}

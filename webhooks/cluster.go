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

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters,versions=v1beta2,name=validation.ingotcluster.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotclustertemplates,versions=v1beta2,name=validation.ingotclustertemplate.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// clusterValidator admits IngotClusters.
type clusterValidator struct{}

var _ admission.Validator[*v1beta2.IngotCluster] = &clusterValidator{}

func checkClusterSpec(path *field.Path, spec v1beta2.IngotClusterSpec) field.ErrorList {
	errs := checkLabelSelector(path.Child("hostSelector"), spec.HostSelector)
	return append(errs, checkLabelSelector(path.Child("controlPlaneSelector"), spec.ControlPlaneSelector)...)
}

// endpointWarning tells of half an endpoint, with which nothing starts (C06: both
// parts are optional).
func endpointWarning(path string, endpoint v1beta2.APIEndpoint) admission.Warnings {
	missing := ""
	switch {
	case endpoint.Host != "" && endpoint.Port == 0:
		missing = "port"
	case endpoint.Host == "" && endpoint.Port != 0:
		missing = "host"
	default:
		return nil
	}
	return admission.Warnings{fmt.Sprintf("%s.controlPlaneEndpoint.%s: is unset; give it, until then the cluster waits", path, missing)}
}

// ValidateCreate admits a new cluster.
func (v *clusterValidator) ValidateCreate(_ context.Context, cluster *v1beta2.IngotCluster) (admission.Warnings, error) {
	return endpointWarning("spec", cluster.Spec.ControlPlaneEndpoint),
		refusal("IngotCluster", cluster, checkClusterSpec(field.NewPath("spec"), cluster.Spec))
}

// ValidateUpdate admits a change. The failure domain label stays once the cluster
// is provisioned: failure domains of machines are values of it (I11).
func (v *clusterValidator) ValidateUpdate(_ context.Context, before, after *v1beta2.IngotCluster) (admission.Warnings, error) {
	errs := checkClusterSpec(field.NewPath("spec"), after.Spec)
	provisioned := before.Status.Initialization.Provisioned
	if was := before.Spec.FailureDomainLabel; provisioned != nil && *provisioned && after.Spec.FailureDomainLabel != was {
		errs = append(errs, field.Invalid(field.NewPath("spec", "failureDomainLabel"), after.Spec.FailureDomainLabel, fmt.Sprintf(
			"is immutable once the cluster is provisioned, because machines stand in the domains of %s; set it back, or create another cluster", was)))
	}
	return endpointWarning("spec", after.Spec.ControlPlaneEndpoint), refusal("IngotCluster", after, errs)
}

// ValidateDelete admits: the controller waits for the machines.
func (v *clusterValidator) ValidateDelete(context.Context, *v1beta2.IngotCluster) (admission.Warnings, error) {
	return nil, nil
}

// clusterTemplateValidator admits IngotClusterTemplates.
type clusterTemplateValidator struct{}

var _ admission.Validator[*v1beta2.IngotClusterTemplate] = &clusterTemplateValidator{}

func checkClusterTemplate(template *v1beta2.IngotClusterTemplate) field.ErrorList {
	path := field.NewPath("spec", "template")
	errs := template.Spec.Template.ObjectMeta.Validate(path.Child("metadata"))
	return append(errs, checkClusterSpec(path.Child("spec"), template.Spec.Template.Spec)...)
}

// ValidateCreate admits a new template.
func (v *clusterTemplateValidator) ValidateCreate(_ context.Context, template *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	return endpointWarning("spec.template.spec", template.Spec.Template.Spec.ControlPlaneEndpoint),
		refusal("IngotClusterTemplate", template, checkClusterTemplate(template))
}

// ValidateUpdate keeps spec.template.spec as it is, but for dry runs of the
// topology controller (M35–M37).
func (v *clusterTemplateValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	errs := checkClusterTemplate(after)
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
	return nil, refusal("IngotClusterTemplate", after, errs)
}

// ValidateDelete admits.
func (v *clusterTemplateValidator) ValidateDelete(context.Context, *v1beta2.IngotClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}

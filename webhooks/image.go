// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/webhooks/normalize"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-infrastructure-cluster-x-k8s-io-v1beta2-ingotimage,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotimages,versions=v1beta2,name=default.ingotimage.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update;delete,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingotimage,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingotimages,versions=v1beta2,name=validation.ingotimage.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotimages;ingotmachinetemplates,verbs=list;watch

func defaultImage(image *v1beta2.IngotImage) { normalize.Image(&image.Spec) }

// imageValidator validates IngotImages. Clusters choose an image by version, so that one IngotImage
// can cause the reinstallation of a whole fleet. The schema checks the fields.
type imageValidator struct {
	// reader reads from an indexed cache.
	reader client.Reader
	clock  clock.PassiveClock
}

// ValidateCreate warns if new Clusters must now choose an operating system. Existing Clusters keep
// their image.
func (v *imageValidator) ValidateCreate(ctx context.Context, image *v1beta2.IngotImage) (admission.Warnings, error) {
	warnings, err := v.checkDeletionAnnotation("", image)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, warningTimeout)
	defer cancel()
	images := &v1beta2.IngotImageList{}
	if err := v.reader.List(ctx, images, client.UnsafeDisableDeepCopy); err != nil {
		return warnings, nil
	}
	var others []string
	for i := range images.Items {
		name, spec := images.Items[i].Name, &images.Items[i].Spec
		if name != image.Name && spec.KubernetesVersion == image.Spec.KubernetesVersion && spec.Architecture == image.Spec.Architecture && spec.OS != image.Spec.OS {
			others = append(others, spec.OS)
		}
	}
	if len(others) > 0 {
		slices.Sort(others)
		warnings = append(warnings, fmt.Sprintf("spec.os: Kubernetes %[2]s on %[3]s has images of several operating systems (%[1]q and %[4]s): new Clusters whose ClusterClass chooses "+
			"images by version must set the variable ingotOS; existing Clusters keep their image",
			image.Spec.OS, image.Spec.KubernetesVersion, image.Spec.Architecture, shorten(slices.Compact(others))))
	}
	return warnings, nil
}

// ValidateUpdate checks only the annotation that allows a deletion: the other mutable fields do not
// affect the choice of an image.
func (v *imageValidator) ValidateUpdate(_ context.Context, before, after *v1beta2.IngotImage) (admission.Warnings, error) {
	return v.checkDeletionAnnotation(before.Annotations[v1beta2.DeleteInUseAnnotation], after)
}

// checkDeletionAnnotation rejects a new delete-in-use annotation without a valid time, or with a
// time in the future, and warns that it is valid for one hour only.
func (v *imageValidator) checkDeletionAnnotation(before string, image *v1beta2.IngotImage) (admission.Warnings, error) {
	value, found := image.Annotations[v1beta2.DeleteInUseAnnotation]
	if !found || before == value && before != "" || !image.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	path := field.NewPath("metadata", "annotations").Key(v1beta2.DeleteInUseAnnotation)
	command := "; to set it now, run: kubectl annotate --overwrite iimg " + image.Name + " " + inventory.CommandText(v1beta2.DeleteInUseAnnotation)
	c, err := inventory.ParseCommand(v1beta2.DeleteInUseAnnotation, value)
	switch {
	case err != nil:
		return nil, invalid("IngotImage", image, field.ErrorList{field.Invalid(path, value, err.Error()+command)})
	case c.IsInFuture(v.clock.Now()):
		return nil, invalid("IngotImage", image, field.ErrorList{field.Invalid(path, value, "its time is in the future; check the clock"+command)})
	case c.IsExpired(v.clock.Now()):
		return admission.Warnings{fmt.Sprintf("%s: %q has no effect: it expired one hour after its time%s", path, value, command)}, nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %q allows a deletion within one hour of its time; do not keep it in a manifest", path, value)}, nil
}

// isDeletionAllowed reports whether a valid delete-in-use annotation of the last hour exists.
func (v *imageValidator) isDeletionAllowed(image *v1beta2.IngotImage) bool {
	c, err := inventory.ParseCommand(v1beta2.DeleteInUseAnnotation, image.Annotations[v1beta2.DeleteInUseAnnotation])
	return err == nil && !c.IsInFuture(v.clock.Now()) && !c.IsExpired(v.clock.Now())
}

// ValidateDelete rejects the deletion of an image that Clusters with a topology use: without it
// Cluster API replaces all their machines, or the topology cannot be reconciled. It warns about
// other templates that use the image.
func (v *imageValidator) ValidateDelete(ctx context.Context, image *v1beta2.IngotImage) (admission.Warnings, error) {
	if isDeletedForMove(image) {
		return nil, nil
	}
	used, err := v.users(ctx, image.Name)
	if err != nil {
		return nil, err
	}
	if len(used.clusters) > 0 && !v.isDeletionAllowed(image) {
		return nil, invalid("IngotImage", image, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), image.Name, fmt.Sprintf(
			"Clusters %s use this image, and its deletion replaces their machines or blocks their topology; change their version, image or variable ingotOS first, "+
				"or, to delete it anyway, annotate it with %s", shorten(used.clusters), inventory.CommandText(v1beta2.DeleteInUseAnnotation)))})
	}
	if len(used.templates) > 0 {
		return admission.Warnings{fmt.Sprintf("metadata.name: IngotMachineTemplates %s use image %q; their new machines wait until an image of that name exists", shorten(used.templates), image.Name)}, nil
	}
	return nil, nil
}

// usedBy lists, as namespace/name, the Clusters whose topology uses an image, and the templates
// outside a topology that do.
type usedBy struct{ clusters, templates []string }

func (v *imageValidator) users(ctx context.Context, image string) (usedBy, error) {
	var out usedBy
	templates := &v1beta2.IngotMachineTemplateList{}
	if err := v.reader.List(ctx, templates, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("list the templates that use image %s: %w", image, err)
	}
	for i := range templates.Items {
		t := &templates.Items[i]
		if ref := t.Spec.Template.Spec.ImageRef; ref == nil || ref.Name != image || !t.DeletionTimestamp.IsZero() {
			continue
		}
		if _, owned := t.Labels[clusterv1.ClusterTopologyOwnedLabel]; owned {
			out.clusters = append(out.clusters, t.Namespace+"/"+t.Labels[clusterv1.ClusterNameLabel])
		} else {
			out.templates = append(out.templates, t.Namespace+"/"+t.Name)
		}
	}
	for _, list := range []*[]string{&out.clusters, &out.templates} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return out, nil
}

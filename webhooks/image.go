// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

// defaultImage brings an image of the catalogue into the form that one in a machine has.
// All that is wrong with one the schema refuses.
func defaultImage(image *v1beta2.IngotImage) { normalize.Image(&image.Spec) }

var _ admission.Defaulter[*v1beta2.IngotImage] = defaulter[*v1beta2.IngotImage](defaultImage)

// imageValidator watches over what the catalogue does to Clusters whose images are chosen
// by version: one object of it may reinstall all machines of a fleet (decision 0181).
type imageValidator struct {
	// reader is an indexed cache.
	reader client.Reader
	clock  clock.PassiveClock
}

var _ admission.Validator[*v1beta2.IngotImage] = &imageValidator{}

// ValidateCreate admits, and warns if new Clusters will have to say which operating system
// they want. Clusters that exist keep their image (decision 0330).
func (v *imageValidator) ValidateCreate(ctx context.Context, image *v1beta2.IngotImage) (admission.Warnings, error) {
	consent, err := v.checkConsent("", image)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, warningPatience)
	defer cancel()
	images := &v1beta2.IngotImageList{}
	if err := v.reader.List(ctx, images, client.UnsafeDisableDeepCopy); err != nil {
		return consent, nil
	}
	var others []string
	for i := range images.Items {
		other := &images.Items[i]
		switch {
		case other.Name == image.Name || other.Spec.KubernetesVersion != image.Spec.KubernetesVersion || other.Spec.Architecture != image.Spec.Architecture:
		case other.Spec.OS != image.Spec.OS:
			others = append(others, other.Spec.OS)
		}
	}
	out := consent
	if len(others) > 0 {
		slices.Sort(others)
		out = append(out, fmt.Sprintf("spec.os: with %q the catalogue has images of several operating systems for Kubernetes %s on %s (%s too): new Clusters whose ClusterClass chooses "+
			"images by version have to set the variable ingotOS; those that there are keep theirs", image.Spec.OS, image.Spec.KubernetesVersion, image.Spec.Architecture, listed(slices.Compact(others))))
	}
	return out, nil
}

// ValidateUpdate looks at the consent to a deletion. What else may change of an image is no
// reason for anybody to choose another.
func (v *imageValidator) ValidateUpdate(_ context.Context, before, after *v1beta2.IngotImage) (admission.Warnings, error) {
	return v.checkConsent(before.Annotations[v1beta2.DeleteInUseAnnotation], after)
}

// checkConsent refuses a new consent to the deletion of an image in use that does not say when
// it was given, or says a time to come, and warns of one in a manifest: it counts for an hour
// (decision 0359).
func (v *imageValidator) checkConsent(before string, image *v1beta2.IngotImage) (admission.Warnings, error) {
	value, found := image.Annotations[v1beta2.DeleteInUseAnnotation]
	if !found || before == value && before != "" || !image.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	path := field.NewPath("metadata", "annotations").Key(v1beta2.DeleteInUseAnnotation)
	command := "; to give it now: kubectl annotate --overwrite iimg " + image.Name + " " + inventory.CommandText(v1beta2.DeleteInUseAnnotation)
	c, err := inventory.ParseCommand(v1beta2.DeleteInUseAnnotation, value)
	switch {
	case err != nil:
		return nil, refusal("IngotImage", image, field.ErrorList{field.Invalid(path, value, err.Error()+command)})
	case c.Ahead(v.clock.Now()):
		return nil, refusal("IngotImage", image, field.ErrorList{field.Invalid(path, value, "its time lies in the future; check the clock"+command)})
	case c.Expired(v.clock.Now()):
		return admission.Warnings{fmt.Sprintf("%s: %q has no effect: it expired an hour after its time%s", path, value, command)}, nil
	}
	return admission.Warnings{fmt.Sprintf("%s: %q counts for a deletion within an hour of its time; do not keep it in a manifest", path, value)}, nil
}

// consents reports whether a person has consented, within the last hour, to the deletion of an
// image in use.
func (v *imageValidator) consents(image *v1beta2.IngotImage) bool {
	c, err := inventory.ParseCommand(v1beta2.DeleteInUseAnnotation, image.Annotations[v1beta2.DeleteInUseAnnotation])
	return err == nil && !c.Ahead(v.clock.Now()) && !c.Expired(v.clock.Now())
}

// ValidateDelete keeps an image that the machines of Clusters with a topology are made
// from: without it they are all replaced, from the next image of the catalogue, or the
// topology stands still. Templates of others it only warns of.
func (v *imageValidator) ValidateDelete(ctx context.Context, image *v1beta2.IngotImage) (admission.Warnings, error) {
	if isLetGo(image) {
		return nil, nil
	}
	used, err := v.users(ctx, image.Name)
	if err != nil {
		return nil, err
	}
	if len(used.clusters) > 0 && !v.consents(image) {
		return nil, refusal("IngotImage", image, field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), image.Name, fmt.Sprintf(
			"is the image of Clusters %s: without it their machines are replaced, or their topology stands still; change their version, image or variable ingotOS first, "+
				"or, to delete it all the same, annotate it with %s", listed(used.clusters), inventory.CommandText(v1beta2.DeleteInUseAnnotation)))})
	}
	if len(used.templates) > 0 {
		return admission.Warnings{fmt.Sprintf("metadata.name: IngotMachineTemplates %s name image %q; new machines of theirs wait until there is one of that name", listed(used.templates), image.Name)}, nil
	}
	return nil, nil
}

// usedBy are the Clusters whose topologies name an image, and the templates of nobody's
// topology that do, by namespace and name.
type usedBy struct{ clusters, templates []string }

func (v *imageValidator) users(ctx context.Context, images ...string) (usedBy, error) {
	var out usedBy
	templates := &v1beta2.IngotMachineTemplateList{}
	if err := v.reader.List(ctx, templates, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("look for templates that name the image: %w", err)
	}
	for i := range templates.Items {
		t := &templates.Items[i]
		if ref := t.Spec.Template.Spec.ImageRef; ref == nil || !slices.Contains(images, ref.Name) || !t.DeletionTimestamp.IsZero() {
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

// listed names a few, and counts the others.
func listed(list []string) string {
	if n := len(list) - maxNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNamed], ", "), n)
	}
	return strings.Join(list, ", ")
}

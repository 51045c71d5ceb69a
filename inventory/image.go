// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ErrNoImage means that no IngotImage matches.
var ErrNoImage = errors.New("no IngotImage")

// ErrSeveralOS means that images of several operating systems match.
var ErrSeveralOS = errors.New("IngotImages of several operating systems")

// ImageQuery has the requirements for an image.
type ImageQuery struct {
	// KubernetesVersion, as in Cluster.spec.topology.version.
	KubernetesVersion string
	// Architecture as GOARCH.
	Architecture string
	// OS of the image. Empty: any.
	OS string
}

// ChooseImage returns the image for a Kubernetes version and an architecture. Of several images of
// one operating system it takes the first by name, even if it is unreachable at present, because
// another choice would roll out machines. It fails with ErrNoImage or ErrSeveralOS.
func ChooseImage(images []infrav1.IngotImage, query ImageQuery) (*infrav1.IngotImage, error) {
	var chosen *infrav1.IngotImage
	var systems []string
	for i := range images {
		image := &images[i]
		if !query.suits(image) {
			continue
		}
		if !slices.Contains(systems, image.Spec.OS) {
			systems = append(systems, image.Spec.OS)
		}
		if chosen == nil || strings.Compare(image.Name, chosen.Name) < 0 {
			chosen = image
		}
	}
	text := fmt.Sprintf("for Kubernetes %s on %s", query.KubernetesVersion, query.Architecture)
	switch {
	case chosen == nil && query.OS != "":
		return nil, fmt.Errorf("%w %s with %s; add one to the catalog", ErrNoImage, text, query.OS)
	case chosen == nil:
		return nil, fmt.Errorf("%w %s; add one to the catalog", ErrNoImage, text)
	case len(systems) > 1:
		slices.Sort(systems)
		return nil, fmt.Errorf("%w %s: %s; set the variable ingotOS to one of them", ErrSeveralOS, text, Truncate(strings.Join(systems, ", "), maxSystems))
	}
	return chosen, nil
}

// maxSystems limits the list of operating systems in an error, in characters.
const maxSystems = 240

func (q ImageQuery) suits(image *infrav1.IngotImage) bool {
	return image.DeletionTimestamp.IsZero() && image.Spec.KubernetesVersion == q.KubernetesVersion &&
		image.Spec.Architecture == q.Architecture && (q.OS == "" || image.Spec.OS == q.OS)
}

// ImageInUse returns the image of the newest machine template whose image still matches the query.
// Of equally old templates the first by name counts. Empty: none matches.
func ImageInUse(templates []infrav1.IngotMachineTemplate, images []infrav1.IngotImage, query ImageQuery) string {
	var newest *infrav1.IngotMachineTemplate
	for i := range templates {
		t := &templates[i]
		ref := t.Spec.Template.Spec.ImageRef
		if ref == nil || !slices.ContainsFunc(images, func(image infrav1.IngotImage) bool { return image.Name == ref.Name && query.suits(&image) }) {
			continue
		}
		if newest == nil || cmp.Or(newest.CreationTimestamp.Compare(t.CreationTimestamp.Time), strings.Compare(t.Name, newest.Name)) < 0 {
			newest = t
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Spec.Template.Spec.ImageRef.Name
}

// OSInUse returns the operating system of the images of machine templates. Empty: there are no such
// images, or they are of several systems.
func OSInUse(templates []infrav1.IngotMachineTemplate, images []infrav1.IngotImage) string {
	found := ""
	for i := range templates {
		ref := templates[i].Spec.Template.Spec.ImageRef
		if ref == nil {
			continue
		}
		at := slices.IndexFunc(images, func(image infrav1.IngotImage) bool { return image.Name == ref.Name })
		switch {
		case at < 0:
		case found == "":
			found = images[at].Spec.OS
		case found != images[at].Spec.OS:
			return ""
		}
	}
	return found
}

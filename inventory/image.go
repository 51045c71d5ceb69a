// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"fmt"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// ErrNoImage: the catalogue has no image that was asked for.
var ErrNoImage = errors.New("no IngotImage")

// ImageQuery asks the catalogue for an image.
type ImageQuery struct {
	// KubernetesVersion, as in Cluster.spec.topology.version.
	KubernetesVersion string
	// Architecture in Go's terms.
	Architecture string
	// OS of the image; empty: any.
	OS string
}

// ChooseImage finds the image for a Kubernetes version and an architecture. Of several
// it takes the first by name, whether it is reachable just now or not: a choice that
// changed by itself would roll out machines. It fails with ErrNoImage.
func ChooseImage(images []infrav1.IngotImage, query ImageQuery) (*infrav1.IngotImage, error) {
	var chosen *infrav1.IngotImage
	for i := range images {
		image := &images[i]
		if image.DeletionTimestamp.IsZero() && image.Spec.KubernetesVersion == query.KubernetesVersion &&
			image.Spec.Architecture == query.Architecture && (query.OS == "" || image.Spec.OS == query.OS) &&
			(chosen == nil || strings.Compare(image.Name, chosen.Name) < 0) {
			chosen = image
		}
	}
	if chosen == nil {
		text := fmt.Sprintf("for Kubernetes %s on %s", query.KubernetesVersion, query.Architecture)
		if query.OS != "" {
			text += " with " + query.OS
		}
		return nil, fmt.Errorf("%w %s; add one to the catalogue", ErrNoImage, text)
	}
	return chosen, nil
}

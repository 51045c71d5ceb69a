// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
)

// imageLine matches a container's image in the output of kustomize.
var imageLine = regexp.MustCompile(`(?m)^(\s+(?:- )?image: )` + regexp.QuoteMeta(DefaultImage) + `(?::\S+)?$`)

// components renders a kustomization with the released image.
func components(ctx context.Context, dir, image string) ([]byte, error) {
	rendered, err := kustomize(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("render the components: %w", err)
	}
	rendered = imageLine.ReplaceAll(rendered, []byte("${1}"+image))
	return rendered, checkImages(rendered, image)
}

// kustomize renders a directory with the kubectl of hack/tools.
func kustomize(ctx context.Context, dir string) ([]byte, error) {
	set, err := tools.Open()
	if err != nil {
		return nil, err
	}
	kubectl, err := set.Binary("kubectl")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, kubectl, "kustomize", dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("kubectl kustomize: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// workload contains the fields of a Deployment or DaemonSet that name images.
type workload struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec struct {
				InitContainers []container `json:"initContainers"`
				Containers     []container `json:"containers"`
			} `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type container struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// checkImages returns an error if a Pod uses an image that is not part of the release.
func checkImages(manifests []byte, image string) error {
	for i, document := range strings.Split(string(manifests), "\n---\n") {
		var head struct{ Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			return fmt.Errorf("document %d of the components: %w", i+1, err)
		}
		if head.Kind != "Deployment" && head.Kind != "DaemonSet" {
			continue
		}
		var w workload
		if err := yaml.Unmarshal([]byte(document), &w); err != nil {
			return fmt.Errorf("document %d of the components: %w", i+1, err)
		}
		for _, c := range append(w.Spec.Template.Spec.InitContainers, w.Spec.Template.Spec.Containers...) {
			if c.Image != image {
				return fmt.Errorf("%s %s: container %s has the image %s, which the release does not bring: use %s in config",
					w.Kind, w.Metadata.Name, c.Name, c.Image, DefaultImage)
			}
		}
	}
	return nil
}

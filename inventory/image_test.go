// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestChooseImage(t *testing.T) {
	image := func(name, version, arch, os string) infrav1.IngotImage {
		i := infrav1.IngotImage{Spec: infrav1.IngotImageSpec{KubernetesVersion: version, Architecture: arch, OS: os}}
		i.Name = name
		return i
	}
	going := image("0", "v1.34.2", "amd64", "ubuntu-24.04")
	going.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	images := []infrav1.IngotImage{image("b", "v1.34.2", "amd64", "ubuntu-24.04"), image("b-patched", "v1.34.2", "amd64", "ubuntu-24.04"), image("a", "v1.34.2", "amd64", "flatcar"), image("c", "v1.34.2", "arm64", "flatcar"), going}
	for _, tc := range []struct {
		query ImageQuery
		want  string
	}{
		{ImageQuery{KubernetesVersion: "v1.34.2", Architecture: "amd64"}, "IngotImages of several operating systems for Kubernetes v1.34.2 on amd64: flatcar, ubuntu-24.04; set the variable ingotOS to one of them"},
		{ImageQuery{KubernetesVersion: "v1.34.2", Architecture: "amd64", OS: "flatcar"}, "a"},
		{ImageQuery{KubernetesVersion: "v1.34.2", Architecture: "amd64", OS: "ubuntu-24.04"}, "b"},
		{ImageQuery{KubernetesVersion: "v1.34.2", Architecture: "arm64"}, "c"},
		{ImageQuery{KubernetesVersion: "v1.35.0", Architecture: "arm64"}, "no IngotImage for Kubernetes v1.35.0 on arm64; add one to the catalog"},
		{ImageQuery{KubernetesVersion: "v1.34.2", Architecture: "arm64", OS: "x"}, "no IngotImage for Kubernetes v1.34.2 on arm64 with x; add one to the catalog"},
	} {
		got, err := ChooseImage(images, tc.query)
		var text string
		if err != nil {
			text = err.Error()
		} else {
			text = got.Name
		}
		if text != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.query, text, tc.want)
		}
	}
}

// The operating system of a Cluster is that of the images of its templates, if they agree.
func TestOSInUse(t *testing.T) {
	image := func(name, os string) infrav1.IngotImage {
		i := infrav1.IngotImage{Spec: infrav1.IngotImageSpec{OS: os}}
		i.Name = name
		return i
	}
	images := []infrav1.IngotImage{image("u1", "ubuntu-24.04"), image("u2", "ubuntu-24.04"), image("d1", "debian-13")}
	for name, tc := range map[string]struct {
		named []string
		want  string
	}{
		"no template":         {nil, ""},
		"one":                 {[]string{"u1"}, "ubuntu-24.04"},
		"of two versions":     {[]string{"u1", "u2"}, "ubuntu-24.04"},
		"an inline image too": {[]string{"", "u2"}, "ubuntu-24.04"},
		"one that is gone":    {[]string{"gone"}, ""},
		"of two systems":      {[]string{"u1", "d1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var templates []infrav1.IngotMachineTemplate
			for _, named := range tc.named {
				made := infrav1.IngotMachineTemplate{}
				if named != "" {
					made.Spec.Template.Spec.ImageRef = &infrav1.ImageReference{Name: named}
				}
				templates = append(templates, made)
			}
			if got := OSInUse(templates, images); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

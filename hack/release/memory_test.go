// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// GOMEMLIMIT of every Deployment is below the memory limit, with room for memory outside the heap.
func TestMemory(t *testing.T) {
	r := write(t)
	containers := 0
	for _, file := range []string{r.Components, r.RuntimeComponents, r.BootComponents} {
		for document := range strings.SplitSeq(read(t, file), "\n---\n") {
			var d appsv1.Deployment
			if err := yaml.Unmarshal([]byte(document), &d); err != nil || d.Kind != "Deployment" {
				continue
			}
			for _, c := range d.Spec.Template.Spec.Containers {
				containers++
				i := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "GOMEMLIMIT" })
				if i < 0 {
					t.Errorf("%s has no GOMEMLIMIT", d.Name)
					continue
				}
				aim, err := resource.ParseQuantity(strings.TrimSuffix(c.Env[i].Value, "B")) // Go's MiB are Mi here
				share := aim.AsApproximateFloat64() / c.Resources.Limits.Memory().AsApproximateFloat64()
				if err != nil || share < 0.6 || share > 0.9 {
					t.Errorf("%s: GOMEMLIMIT %s of %s, %v", d.Name, c.Env[i].Value, c.Resources.Limits.Memory(), err)
				}
			}
		}
	}
	if containers != 3 {
		t.Errorf("checked %d containers", containers)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/testscheme"
)

func TestImageChecksumIsNormalized(t *testing.T) {
	image := &v1beta2.IngotImage{Spec: v1beta2.IngotImageSpec{Checksum: "SHA256:" + strings.Repeat("AB", 32)}}
	defaultImage(image)
	if want := "sha256:" + strings.Repeat("ab", 32); image.Spec.Checksum != want {
		t.Errorf("checksum %s, want %s", image.Spec.Checksum, want)
	}
}

// Creating or deleting an image that affects Clusters causes a warning or a rejection.
func TestImageInUse(t *testing.T) {
	scheme := testscheme.Scheme(t)
	image := func(name, os string) *v1beta2.IngotImage {
		return &v1beta2.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1beta2.IngotImageSpec{KubernetesVersion: "v1.36.1", Architecture: "amd64", OS: os}}
	}
	template := func(namespace, name, cluster, image string) *v1beta2.IngotMachineTemplate {
		m := &v1beta2.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if cluster != "" {
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster, clusterv1.ClusterTopologyOwnedLabel: ""}
		}
		m.Spec.Template.Spec.ImageRef = &v1beta2.ImageReference{Name: image}
		return m
	}
	newer := image("a", "debian-13")
	newer.Spec.KubernetesVersion = "v1.37.0"
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	annotated := func(key, value string) *v1beta2.IngotImage {
		i := image("m", "debian-13")
		i.Annotations = map[string]string{key: value}
		return i
	}
	inUse := func(value string) *v1beta2.IngotImage { return annotated(v1beta2.DeleteInUseAnnotation, value) }
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		image("m", "debian-13"), image("unused", "debian-13"), image("lone", "debian-13"),
		template("dc1", "t1", "prod", "m"), template("dc1", "t2", "prod", "m"), template("dc2", "t", "test", "m"), template("dc3", "t", "x", "m"), template("dc4", "t", "y", "m"),
		template("dc1", "mine", "", "lone"), template("dc1", "mine-too", "", "m"),
	).Build()
	v := &imageValidator{reader: reader, clock: testclock.NewFakePassiveClock(now)}
	create := func(i *v1beta2.IngotImage) (admission.Warnings, error) { return v.ValidateCreate(t.Context(), i) }
	remove := func(i *v1beta2.IngotImage) (admission.Warnings, error) { return v.ValidateDelete(t.Context(), i) }
	consent := func(i *v1beta2.IngotImage) (admission.Warnings, error) {
		return v.ValidateUpdate(t.Context(), image("m", "debian-13"), i)
	}
	for name, tc := range map[string]struct {
		do           func(*v1beta2.IngotImage) (admission.Warnings, error)
		image        *v1beta2.IngotImage
		warns, fails string
	}{
		"one that sorts later":          {create, image("z", "debian-13"), "", ""},
		"one that sorts before":         {create, image("b", "debian-13"), "", ""},
		"of another version":            {create, newer, "", ""},
		"another system":                {create, image("a", "ubuntu-24.04"), `spec.os: Kubernetes v1.36.1 on amd64 has images of several operating systems ("ubuntu-24.04" and debian-13)`, ""},
		"deleted, unused":               {remove, image("unused", "debian-13"), "", ""},
		"deleted, in use":               {remove, image("m", "debian-13"), "", "Clusters dc1/prod, dc2/test, dc3/x and 1 more use this image, and its deletion replaces their machines"},
		"deleted, in use, all the same": {remove, inUse("2026-11-20T11:30:00Z"), "metadata.name: IngotMachineTemplates dc1/mine-too use", ""},
		"deleted an hour after that":    {remove, inUse("2026-11-20T11:00:00Z"), "", "use this image"},
		"deleted, a consent to come":    {remove, inUse("2026-11-20T12:30:00Z"), "", "use this image"},
		"deleted, a consent of no time": {remove, inUse(""), "", "annotate it with ingot.infrastructure.cluster.x-k8s.io/delete-in-use=$(date -u +%FT%TZ)"},
		"consent":                       {consent, inUse("2026-11-20T11:59:00Z,by Ann"), "allows a deletion within one hour of its time; do not keep it in a manifest", ""},
		"consent that has expired":      {consent, inUse("2026-11-20T10:59:00Z"), "has no effect: it expired one hour after its time; to set it now, run: kubectl annotate --overwrite iimg m ", ""},
		"consent of no time":            {consent, inUse(""), "", "must start with the UTC time"},
		"consent of a time to come":     {consent, inUse("2026-11-20T13:00:00Z"), "", "its time is in the future"},
		"consent with the image":        {create, inUse("true"), "", "must start with the UTC time"},
		"consent that stands":           {func(i *v1beta2.IngotImage) (admission.Warnings, error) { return v.ValidateUpdate(t.Context(), i, i) }, inUse("2026-11-20T10:59:00Z"), "", ""},
		"deleted by a move":             {remove, annotated(clusterctlv1.DeleteForMoveAnnotation, ""), "", ""},
		"deleted, named by a template":  {remove, image("lone", "debian-13"), "metadata.name: IngotMachineTemplates dc1/mine use image \"lone\"", ""},
		"its URL changes":               {func(i *v1beta2.IngotImage) (admission.Warnings, error) { return v.ValidateUpdate(t.Context(), i, i) }, image("m", "debian-13"), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			warned, err := tc.do(tc.image)
			if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Errorf("error %v, want %q", err, tc.fails)
			}
			if got := strings.Join(warned, "\n"); !strings.Contains(got, tc.warns) || (got == "") != (tc.warns == "") || strings.Contains(got, "\n") {
				t.Errorf("warned of %q, want %q", got, tc.warns)
			}
		})
	}
}

// An unreadable cache does not block the creation of an image, but it blocks the deletion.
func TestImageWithUnreadableCache(t *testing.T) {
	v := &imageValidator{reader: fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build(), clock: testclock.NewFakePassiveClock(time.Unix(0, 0))}
	if warned, err := v.ValidateCreate(t.Context(), &v1beta2.IngotImage{}); err != nil || len(warned) > 0 {
		t.Errorf("created: %v, %v", warned, err)
	}
	if _, err := v.ValidateDelete(t.Context(), &v1beta2.IngotImage{}); err == nil {
		t.Error("the deletion was allowed although the users are unknown")
	}
}

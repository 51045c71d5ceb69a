// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// A command that would do what its value denies, or whose value does not exist, is
// refused when it is given, and not later.
func TestCommands(t *testing.T) {
	tests := []struct {
		name, annotation, value string
		wantRefused             bool
	}{
		{"force by being there", v1beta2.ForceReleaseAnnotation, "", false},
		{"force with a reason", v1beta2.ForceReleaseAnnotation, "server removed by J. Doe", false},
		{"force denied", v1beta2.ForceReleaseAnnotation, "false", true},
		{"force denied in capitals", v1beta2.ForceReleaseAnnotation, "No", true},
		{"dangling denied", v1beta2.ReleaseDanglingAnnotation, "0", true},
		{"quarantine kept", v1beta2.ClearQuarantineAnnotation, "never", true},
		{"inspection denied", v1beta2.InspectAnnotation, "off", true},
		{"approval of an instance", v1beta2.ApproveAnnotation, "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11", false},
		{"approval denied", v1beta2.ApproveAnnotation, "false", true},
		{"reboot", v1beta2.RebootAnnotation, "Forced", false},
		{"reboot, gracefully", v1beta2.RebootAnnotation, "Graceful", false},
		{"reboot in another case", v1beta2.RebootAnnotation, "forced", true},
		{"reboot without a way", v1beta2.RebootAnnotation, "", true},
		{"somebody else's", "example.com/force-release", "false", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := claimed("h")
			host.Annotations = map[string]string{tt.annotation: tt.value}
			path := ""
			if tt.wantRefused {
				path = "metadata.annotations[" + tt.annotation + "]"
			}
			v := newHostValidator(t, "ingot")
			_, err := v.ValidateUpdate(request(t.Context(), "alice"), claimed("h"), host)
			checkRefusal(t, err, path)
			free := host.DeepCopy()
			free.Spec.Claim = nil
			_, err = v.ValidateCreate(request(t.Context(), "alice"), free)
			checkRefusal(t, err, path)
			_, err = v.ValidateCreate(request(t.Context(), "restorer"), host)
			checkRefusal(t, err, "") // a move never fails on it
			_, err = v.ValidateUpdate(request(t.Context(), "alice"), host, host.DeepCopy())
			checkRefusal(t, err, "") // what stands, stands
		})
	}
}

func TestStrayCommands(t *testing.T) {
	const slip = v1beta2.AnnotationPrefix + "force-relase"
	annotated := func(object client.Object, key string) client.Object {
		object.SetAnnotations(map[string]string{key: "x", "example.com/note": "y"})
		return object
	}
	tests := []struct {
		name   string
		before map[string]string
		object client.Object
		want   []string
	}{
		{"a host's on a host", nil, annotated(&v1beta2.IngotHost{}, v1beta2.InspectAnnotation), nil},
		{"a slip", nil, annotated(&v1beta2.IngotHost{}, slip), []string{"metadata.annotations[" + slip + `]: "x" is read by nobody here; ` +
			"remove it, or correct it to one of approve, clear-quarantine, force-release, inspect, move-paused, reboot, release-dangling, retry-bmc, rotate-credentials"}},
		{"a slip that stands", map[string]string{slip: ""}, annotated(&v1beta2.IngotHost{}, slip), nil},
		{"a host's on a machine", nil, annotated(&v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, v1beta2.ForceReleaseAnnotation), []string{
			"metadata.annotations[" + v1beta2.ForceReleaseAnnotation + `]: "x" is read by nobody here; annotate the IngotHost`}},
		{"a slip on a cluster", nil, annotated(&v1beta2.IngotCluster{}, slip), []string{"metadata.annotations[" + slip + `]: "x" is read by nobody here; remove it`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, strayCommands(tt.before, tt.object), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"strings"
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
		{"approval of two", v1beta2.ApproveAnnotation, "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11,damaged-0123456789abcdef", false},
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

// Whoever gives a command that nothing will take up is told at once.
func TestVainCommands(t *testing.T) {
	const force, dangling, lift = v1beta2.ForceReleaseAnnotation, v1beta2.ReleaseDanglingAnnotation, v1beta2.ClearQuarantineAnnotation
	free := v1beta2.IngotHostSpec{}
	in := func(state v1beta2.ClaimState) v1beta2.IngotHostSpec {
		return v1beta2.IngotHostSpec{Claim: &v1beta2.HostClaim{State: state}}
	}
	fenced := v1beta2.IngotHostSpec{Claim: &v1beta2.HostClaim{State: v1beta2.ClaimReleasing, FencedAt: metav1.Now()}}
	quarantined := func(reason v1beta2.QuarantineReason) v1beta2.IngotHostSpec {
		return v1beta2.IngotHostSpec{Record: &v1beta2.HostRecord{Quarantine: &v1beta2.Quarantine{Reason: reason}}}
	}
	tests := []struct {
		name, command string
		spec          v1beta2.IngotHostSpec
		stood         bool
		says          string
	}{
		{"force on a free host", force, free, false, "no machine has"},
		{"force on a host in use", force, in(v1beta2.ClaimProvisioned), false, "while the Machine of this host is being deleted"},
		{"force that is waited for", force, in(v1beta2.ClaimReleasing), false, ""},
		{"force on a fenced host", force, fenced, false, "is off"},
		{"force that stands", force, free, true, ""},
		{"dangling on a free host", dangling, free, false, "no machine has"},
		{"dangling on a host in use", dangling, in(v1beta2.ClaimProvisioned), false, ""},
		{"dangling on a host being released", dangling, in(v1beta2.ClaimReleasing), false, "being released"},
		{"clear on a well host", lift, free, false, "not in quarantine"},
		{"clear on one in use", lift, in(v1beta2.ClaimProvisioned), false, "not in quarantine"},
		{"clear on a quarantined host", lift, quarantined(v1beta2.QuarantineWipeFailed), false, ""},
		{"clear on one not fenced", lift, quarantined(v1beta2.QuarantineNotFenced), false, "ends by itself"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tt.command: ""}}, Spec: tt.spec}
			var before map[string]string
			if tt.stood {
				before = host.Annotations
			}
			got := strings.Join(vainCommands(before, host), "; ")
			if (got != "") != (tt.says != "") || !strings.Contains(got, tt.says) {
				t.Errorf("warned %q, want %q", got, tt.says)
			}
		})
	}
}

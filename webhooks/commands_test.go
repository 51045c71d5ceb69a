// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// commandTime returns the time of the commands and the current time of the webhooks in these
// tests.
func commandTime() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// A new command without a valid time or argument is rejected. An expired command is accepted,
// because a manifest may repeat it (I24).
func TestCommands(t *testing.T) {
	at := func(d time.Duration) string { return commandTime().Add(d).Format(time.RFC3339) }
	now := at(0)
	const instance = "6b1f6cb4-1f1a-4d0e-9a35-0f2b6a3c7d11"
	tests := []struct {
		name, annotation, value string
		wantRefused             bool
	}{
		{"force by being there", v1beta2.ForceReleaseAnnotation, "", true},
		{"force", v1beta2.ForceReleaseAnnotation, now, false},
		{"force with a note", v1beta2.ForceReleaseAnnotation, now + ",server removed by J. Doe", false},
		{"force with a note that is too long", v1beta2.ForceReleaseAnnotation, now + "," + strings.Repeat("x", 257), true},
		{"force with a note and no time", v1beta2.ForceReleaseAnnotation, "server removed by J. Doe", true},
		{"force denied", v1beta2.ForceReleaseAnnotation, "false", true},
		{"force by a date", v1beta2.ForceReleaseAnnotation, "2026-01-02", true},
		{"inspection in another zone", v1beta2.InspectAnnotation, "2026-01-02T04:04:05+01:00", false},
		{"inspection hours ago", v1beta2.InspectAnnotation, at(-5 * time.Hour), false},
		{"inspection by a clock that is ahead", v1beta2.InspectAnnotation, at(5 * time.Minute), false},
		{"inspection in the future", v1beta2.InspectAnnotation, at(6 * time.Minute), true},
		{"quarantine cleared by being there", v1beta2.ClearQuarantineAnnotation, "", true},
		{"dangling by being there", v1beta2.ReleaseAnnotation, "", true},
		{"retry by a number", v1beta2.RetryBMCAnnotation, "1767323045", true},
		{"approval", v1beta2.ApproveAnnotation, now, false},
		{"approval by being there", v1beta2.ApproveAnnotation, "", true},
		{"approval of an instance", v1beta2.ApproveAnnotation, now + "," + instance, false},
		{"approval of two", v1beta2.ApproveAnnotation, now + "," + instance + ",damaged-0123456789abcdef", false},
		{"approval of an instance without a time", v1beta2.ApproveAnnotation, instance, true},
		{"approval of what is no instance", v1beta2.ApproveAnnotation, now + ",yes", true},
		{"reboot", v1beta2.RebootAnnotation, now, false},
		{"reboot, forced", v1beta2.RebootAnnotation, now + ",Forced", false},
		{"reboot, gracefully", v1beta2.RebootAnnotation, now + ",Graceful", false},
		{"reboot in another case", v1beta2.RebootAnnotation, now + ",forced", true},
		{"reboot without a time", v1beta2.RebootAnnotation, "Forced", true},
		{"another tool's", "example.com/force-release", "false", false},
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
			if remedy := inventory.CommandLine(host, tt.annotation); tt.wantRefused && err != nil && !strings.Contains(err.Error(), remedy) {
				t.Errorf("%v: lacks the remedy %s", err, remedy)
			}
			free := host.DeepCopy()
			free.Spec.Claim = nil
			_, err = v.ValidateCreate(request(t.Context(), "alice"), free)
			checkRefusal(t, err, path)
			_, err = v.ValidateCreate(request(t.Context(), "restorer"), host)
			checkRefusal(t, err, "") // a move never fails because of a command
			_, err = v.ValidateUpdate(request(t.Context(), "alice"), host, host.DeepCopy())
			checkRefusal(t, err, "") // an unchanged command is accepted
		})
	}
}

// Every new command causes a warning, because a command in a manifest has no effect when repeated
// (I24).
func TestCommandWarnings(t *testing.T) {
	at := func(d time.Duration) string { return commandTime().Add(d).Format(time.RFC3339) }
	for _, name := range inventory.CommandNames() {
		for _, tt := range []struct {
			value string
			stood bool
			want  string
		}{
			{at(0), false, "do not keep it in a manifest"},
			{at(0), true, ""},
			{at(-time.Hour), false, "it expired"},
			{at(-time.Minute), false, "already handled"},
		} {
			host := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{name: tt.value}}}
			host.Spec.Commands = []v1beta2.HostCommand{{Name: strings.TrimPrefix(name, v1beta2.AnnotationPrefix), RequestTime: metav1.Time{Time: commandTime().Add(-time.Minute)}}}
			if tt.want == "it expired" {
				host.Spec.Commands = nil
			}
			var before map[string]string
			if tt.stood {
				before = host.Annotations
			}
			got := strings.Join(commandWarnings(before, host, commandTime()), "; ")
			if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("%s=%s: warned %q, want %q", name, tt.value, got, tt.want)
			}
		}
	}
}

// The webhook records the user of a command, ignores a forged name, and keeps the users of other
// commands.
func TestCommandUsersAreRecorded(t *testing.T) {
	webhook := newMutation(newDecoder(t), &v1beta2.IngotHost{}, hostDefaulter{clock: clocktesting.NewFakePassiveClock(commandTime())})
	raw := func(annotations string) runtime.RawExtension {
		return runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotHost","metadata":{"name":"h","annotations":{` + annotations + `}}}`)}
	}
	const reboot, inspect = `"` + v1beta2.RebootAnnotation + `":"2026-01-02T03:04:05Z"`, `"` + v1beta2.InspectAnnotation + `":"2026-01-02T03:04:05Z"`
	const forged = `,"` + v1beta2.CommandsGivenByAnnotation + `":"{\"reboot\":{\"value\":\"2026-01-02T03:04:05Z\",\"user\":\"mallory\"}}"`
	const alices = `,"` + v1beta2.CommandsGivenByAnnotation + `":"{\"reboot\":{\"value\":\"2026-01-02T03:04:05Z\",\"user\":\"alice\"}}"`
	for name, tc := range map[string]struct{ before, after, want string }{
		"given at once":               {"", reboot, `"user\":\"bob`},
		"given, with a forged name":   {`"a":"b"`, reboot + forged, `"user\":\"bob`},
		"given before":                {reboot + alices, reboot + "," + inspect, `"user\":\"bob\"},\"reboot\":{\"value\":\"2026-01-02T03:04:05Z\",\"user\":\"alice`},
		"another's name taken":        {reboot + alices, reboot + forged, `"user\":\"alice`},
		"carried out, and taken away": {reboot + alices, alices[1:], `"op":"remove"`},
	} {
		t.Run(name, func(t *testing.T) {
			request := admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(tc.after)}
			request.UserInfo.Username = "bob"
			if tc.before != "" {
				request.Operation, request.OldObject = admissionv1.Update, raw(tc.before)
			}
			got := webhook.Handle(t.Context(), admission.Request{AdmissionRequest: request})
			patches, err := json.Marshal(got.Patches)
			if err != nil || !got.Allowed || len(got.Warnings) > 0 {
				t.Fatalf("%v, allowed %t, warned %q", err, got.Allowed, got.Warnings)
			}
			if !strings.Contains(string(patches), tc.want) {
				t.Errorf("patches %s, want %s", patches, tc.want)
			}
		})
	}
}

func TestUnknownAnnotations(t *testing.T) {
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
		{"a slip", nil, annotated(&v1beta2.IngotHost{}, slip), []string{"metadata.annotations[" + slip + `]: "x" has no effect on this kind; ` +
			"remove it, or correct it to one of approve, clear-quarantine, force-release, inspect, move-paused, reboot, release, retry-bmc, rotate-credentials"}},
		{"a slip that stands", map[string]string{slip: ""}, annotated(&v1beta2.IngotHost{}, slip), nil},
		{"a host's on a machine", nil, annotated(&v1beta2.IngotMachine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, v1beta2.ForceReleaseAnnotation), []string{
			"metadata.annotations[" + v1beta2.ForceReleaseAnnotation + `]: "x" has no effect on this kind; annotate the IngotHost instead`}},
		{"a slip on a cluster", nil, annotated(&v1beta2.IngotCluster{}, slip), []string{"metadata.annotations[" + slip + `]: "x" has no effect on this kind; remove it`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, unknownAnnotations(tt.before, tt.object), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// A command without effect in the host's state causes a warning.
func TestIneffectiveCommands(t *testing.T) {
	const force, dangling, lift = v1beta2.ForceReleaseAnnotation, v1beta2.ReleaseAnnotation, v1beta2.ClearQuarantineAnnotation
	free := v1beta2.IngotHostSpec{}
	in := func(state v1beta2.ClaimState) v1beta2.IngotHostSpec {
		return v1beta2.IngotHostSpec{Claim: &v1beta2.HostClaim{State: state}}
	}
	fenced := v1beta2.IngotHostSpec{Claim: &v1beta2.HostClaim{State: v1beta2.ClaimReleasing, FencedTime: metav1.Now()}}
	quarantined := func(reason v1beta2.QuarantineReason) v1beta2.IngotHostSpec {
		return v1beta2.IngotHostSpec{Record: &v1beta2.HostRecord{Quarantine: &v1beta2.Quarantine{Reason: reason}}}
	}
	tests := []struct {
		name, command string
		spec          v1beta2.IngotHostSpec
		stood         bool
		want          string
	}{
		{"force on a free host", force, free, false, "no machine uses"},
		{"force on a host in use", force, in(v1beta2.ClaimProvisioned), false, "while the Machine of this host is being deleted"},
		{"force that is waited for", force, in(v1beta2.ClaimReleasing), false, ""},
		{"force on a fenced host", force, fenced, false, "is off"},
		{"force that stands", force, free, true, ""},
		{"dangling on a free host", dangling, free, false, "no machine uses"},
		{"dangling on a host in use", dangling, in(v1beta2.ClaimProvisioned), false, ""},
		{"dangling on a host being released", dangling, in(v1beta2.ClaimReleasing), false, "being released"},
		{"clear on a well host", lift, free, false, "not in quarantine"},
		{"clear on one in use", lift, in(v1beta2.ClaimProvisioned), false, "not in quarantine"},
		{"clear on a quarantined host", lift, quarantined(v1beta2.QuarantineCleanFailed), false, ""},
		{"clear on one not fenced", lift, quarantined(v1beta2.QuarantineNotFenced), false, "ends when the BMC confirms"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{tt.command: "2026-01-02T03:04:05Z"}}, Spec: tt.spec}
			var before map[string]string
			if tt.stood {
				before = host.Annotations
			}
			got := strings.Join(ineffectiveCommands(before, host), "; ")
			if (got != "") != (tt.want != "") || !strings.Contains(got, tt.want) {
				t.Errorf("warned %q, want %q", got, tt.want)
			}
		})
	}
}

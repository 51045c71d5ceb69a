// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// A new host with block-move was saved before it was paused, so the webhook pauses it.
func TestRestoredHostIsPaused(t *testing.T) {
	const (
		blocked = `"clusterctl.cluster.x-k8s.io/block-move":""`
		paused  = `"ingot.infrastructure.cluster.x-k8s.io/move-paused":"2026-11-01T00:00:00Z"`
		unblock = `{"op":"remove","path":"/metadata/annotations/clusterctl.cluster.x-k8s.io~1block-move"}`
		pause   = `{"op":"add","path":"/metadata/annotations/ingot.infrastructure.cluster.x-k8s.io~1move-paused","value":"2026-11-28T03:59:00Z"}`
	)
	for name, tc := range map[string]struct {
		operation   admissionv1.Operation
		annotations string
		want        []string
	}{
		"saved in the middle of a pause":  {admissionv1.Create, blocked, []string{unblock, pause}},
		"saved when it stood still":       {admissionv1.Create, paused, nil},
		"saved a moment before it did":    {admissionv1.Create, blocked + "," + paused, []string{unblock}},
		"registered by hand":              {admissionv1.Create, "", nil},
		"Ingot blocks a move of its host": {admissionv1.Update, blocked, nil},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 11, 28, 4, 0, 0, 0, time.UTC)
			webhook := newMutation(newDecoder(t), &v1beta2.IngotHost{}, hostDefaulter{clock: clocktesting.NewFakePassiveClock(now)})
			got := webhook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: tc.operation, Object: runtime.RawExtension{Raw: []byte(
					`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotHost","metadata":{"name":"h","annotations":{` + tc.annotations + `}}}`)},
			}})
			if !got.Allowed || len(got.Warnings) > 0 {
				t.Errorf("allowed %t, %q", got.Allowed, got.Warnings)
			}
			patches := map[string]bool{}
			for _, patch := range got.Patches {
				text, err := json.Marshal(patch)
				if err != nil {
					t.Fatal(err)
				}
				patches[string(text)] = true
			}
			want := map[string]bool{}
			for _, text := range tc.want {
				want[text] = true
			}
			if diff := cmp.Diff(want, patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
		})
	}
}

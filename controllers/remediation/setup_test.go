// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package remediation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestChangesThatTriggerARemediation(t *testing.T) {
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	host.Spec.Claim = &infrav1.HostClaim{}
	for name, c := range map[string]struct {
		edit func(before, after *infrav1.IngotHost)
		want bool
	}{
		"its status": {func(_, after *infrav1.IngotHost) { after.Status.Power = infrav1.PowerStateOff }, false},
		"its system's report": {func(_, after *infrav1.IngotHost) {
			after.Status.Booted = &infrav1.BootedStatus{InstanceID: "i"}
		}, true},
		"its claim":          {func(_, after *infrav1.IngotHost) { after.Generation++ }, true},
		"the end of a claim": {func(_, after *infrav1.IngotHost) { after.Generation++; after.Spec.Claim = nil }, true},
		"a pause": {func(_, after *infrav1.IngotHost) {
			after.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, true},
		"a free host's": {func(before, after *infrav1.IngotHost) {
			after.Generation++
			before.Spec.Claim, after.Spec.Claim = nil, nil
		}, false},
	} {
		before, after := host.DeepCopy(), host.DeepCopy()
		c.edit(before, after)
		if got := hostChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("a host, %s: brought up %v, want %v", name, got, c.want)
		}
	}
	machine, paused := &infrav1.IngotMachine{}, &infrav1.IngotMachine{}
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	if !annotationsChanged().Update(event.UpdateEvent{ObjectOld: paused, ObjectNew: machine}) || annotationsChanged().Update(event.UpdateEvent{ObjectOld: machine, ObjectNew: machine}) ||
		annotationsChanged().Create(event.CreateEvent{Object: paused}) {
		t.Error("an IngotMachine brings its remediation up by something else than the end of its pause")
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
)

// Who has been told to wait says so, to the minute: an agent that only repeats itself
// counts as one that hangs.
func TestWaiting(t *testing.T) {
	p := &progress{latest: agentapi.Progress{OrderID: "o", Step: agentapi.StepStarted}}
	for _, step := range []struct {
		name string
		do   func()
		want agentapi.Progress
	}{
		{"at first", func() { p.waiting(0) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage}},
		{"for a while", func() { p.waiting(119 * time.Second) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage, Seconds: 60}},
		{"for longer", func() { p.waiting(time.Hour + time.Second) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage, Seconds: 3600}},
		{"in the middle of the work", func() {
			p.change(func(now *agentapi.Progress) { now.Step, now.Percent, now.Bytes = agentapi.StepWrite, 40, 7 })
			p.waiting(time.Minute)
		},
			agentapi.Progress{OrderID: "o", Step: agentapi.StepWrite, Percent: 40, Bytes: 7, Seconds: 60}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, p.current()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

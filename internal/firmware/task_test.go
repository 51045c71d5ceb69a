// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// telling is a BMC with tasks.
type telling struct {
	*shop
	tell func() (bmc.Task, error)
}

func (b telling) Do(ctx context.Context, _ bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	return calls(ctx, tellingConn{tell: b.tell})
}

type tellingConn struct {
	bmc.Conn
	tell func() (bmc.Task, error)
}

func (c tellingConn) Task(context.Context, string) (bmc.Task, error) { return c.tell() }

// A BMC that writes firmware may not answer. A task that cannot be read has not ended: to boot the host
// would interrupt the update.
func TestTaskThatCannotBeRead(t *testing.T) {
	running := func() (bmc.Task, error) { return bmc.Task{State: bmc.TaskRunning, Percent: 60}, nil }
	ended := func() (bmc.Task, error) { return bmc.Task{State: bmc.TaskSucceeded, Percent: 100}, nil }
	fails := func(err error) func() (bmc.Task, error) {
		return func() (bmc.Task, error) { return bmc.Task{}, fmt.Errorf("read task: %w", err) }
	}
	ill, slow, forgot := fails(errors.New("500")), fails(bmc.ErrTimeout), fails(bmc.ErrNotSupported)
	type tells []func() (bmc.Task, error)
	policy := lifecycle.DefaultPolicy()
	for _, tc := range []struct {
		name  string
		since time.Duration // the update began
		tells tells
		task  string // another than before, the last time
		want  lifecycle.UpdateProgress
	}{
		{"running", policy.UpdateSilence, tells{running}, "", lifecycle.UpdateRunning},
		{"running, then ill", policy.UpdateSilence, tells{running, ill}, "", lifecycle.UpdateRunning},
		{"running, then silent twice", policy.UpdateSilence, tells{running, slow, slow}, "", lifecycle.UpdateRunning},
		{"running, then silent, then at its end", policy.UpdateSilence, tells{running, slow, ended}, "", lifecycle.UpdateSucceeded},
		{"never told", policy.UpdateSilence, tells{slow}, "", lifecycle.UpdateUnknown},
		{"running, then forgotten by the BMC", policy.UpdateSilence, tells{running, forgot}, "", lifecycle.UpdateUnknown},
		{"forgotten, then silent", policy.UpdateSilence, tells{running, forgot, slow}, "", lifecycle.UpdateUnknown},
		{"at its end, then silent", policy.UpdateSilence, tells{running, ended, slow}, "", lifecycle.UpdateUnknown},
		{"another task", policy.UpdateSilence, tells{running, slow}, "/tasks/2", lifecycle.UpdateUnknown},
		{"for too long", policy.UpdateDeadline, tells{running, slow}, "", lifecycle.UpdateUnknown},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShop(t, nil)
			s.Policy = policy
			memory := &Memory{}
			update := &infrav1.FirmwareUpdate{
				Component: "BIOS", Version: "2", State: infrav1.UpdateAccepted, TaskID: "/tasks/1",
				StartTime: metav1.NewTime(s.Clock.Now().Add(-tc.since - time.Second)),
			}
			s.host.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: update}}
			var seen lifecycle.UpdateTask
			for i, tell := range tc.tells {
				if i == len(tc.tells)-1 && tc.task != "" {
					update.TaskID = tc.task
				}
				s.BMC = telling{s, tell}
				v := s.view(memory)
				s.Observe(t.Context(), v)
				seen = v.Seen.Update
			}
			if seen.State != tc.want {
				t.Errorf("%+v, want %v", seen, tc.want)
			}
			if seen.State == lifecycle.UpdateRunning && seen.Percent != 60 {
				t.Errorf("%d %%, want what was told last", seen.Percent)
			}
		})
	}
}

// The message of a task shows no secrets of the image's URL (I18).
func TestTaskIsWithoutSignature(t *testing.T) {
	const signature = "c2lnbmF0dXJlLW9mLWltYWdl"
	s := newShop(t, nil)
	s.host.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", Version: "2", URL: "https://store/BIOS.bin?Signature=" + signature}}
	s.host.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{
		Component: "BIOS", Version: "2", State: infrav1.UpdateAccepted, TaskID: "1", StartTime: metav1.NewTime(s.Clock.Now())}}}
	s.BMC = telling{s, func() (bmc.Task, error) {
		return bmc.Task{State: bmc.TaskFailed, Message: "cannot fetch https://store/BIOS.bin?Signature=" + signature}, nil
	}}
	v := s.view(&Memory{})
	s.Observe(t.Context(), v)
	if got, want := v.Seen.Update.Message, "cannot fetch https://store/BIOS.bin?***"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

// RefusedSince is the time of the first of several refusals of the same question.
func TestRefusedSince(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reading := func(key, refused string, since time.Time) *lifecycle.FirmwareReading {
		return &lifecycle.FirmwareReading{Key: key, Refused: refused, RefusedSince: since}
	}
	earlier := at.Add(-time.Hour)
	for name, tc := range map[string]struct {
		before, now *lifecycle.FirmwareReading
		want        time.Time
	}{
		"the first":               {nil, reading("k", "no", time.Time{}), at},
		"none":                    {reading("k", "no", earlier), reading("k", "", time.Time{}), time.Time{}},
		"another":                 {reading("k", "no", earlier), reading("k", "no", time.Time{}), earlier},
		"of another question":     {reading("j", "no", earlier), reading("k", "no", time.Time{}), at},
		"after one that did not":  {reading("k", "", time.Time{}), reading("k", "no", time.Time{}), at},
		"after a write's refusal": {reading("k", "no", time.Time{}), reading("k", "no", time.Time{}), at},
	} {
		tc.now.At = at
		if got := refusedSince(tc.before, tc.now); !got.Equal(tc.want) {
			t.Errorf("%s: since %s, want %s", name, got, tc.want)
		}
	}
}

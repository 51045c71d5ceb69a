// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agentapi"
)

// The wait is reported with changing minutes, since an agent with unchanged progress counts as
// hanging.
func TestSetWaitingReportsMinutes(t *testing.T) {
	p := &progress{latest: agentapi.Progress{OrderID: "o", Step: agentapi.StepStarted}}
	for _, step := range []struct {
		name string
		do   func()
		want agentapi.Progress
	}{
		{"at first", func() { p.setWaiting(0) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage}},
		{"for a while", func() { p.setWaiting(119 * time.Second) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage, Seconds: 60}},
		{"for longer", func() { p.setWaiting(time.Hour + time.Second) }, agentapi.Progress{OrderID: "o", Step: agentapi.StepAwaitImage, Seconds: 3600}},
		{"in the middle of the work", func() {
			p.change(func(now *agentapi.Progress) { now.Step, now.Percent, now.Bytes = agentapi.StepWrite, 40, 7 })
			p.setWaiting(time.Minute)
		},
			agentapi.Progress{OrderID: "o", Step: agentapi.StepWrite, Percent: 40, Bytes: 7, Seconds: 60}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, p.current()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

// caller returns a client that trusts the manager.
func caller(t *testing.T, m *agenttest.Manager, cfg Config) *client {
	t.Helper()
	var pinsErr, identityErr error
	cfg.Pins, pinsErr = ParsePins(m.Pin())
	cfg.Identity, identityErr = NewIdentity()
	if err := errors.Join(pinsErr, identityErr); err != nil {
		t.Fatal(err)
	}
	cfg.Token, cfg.Log, cfg.Dial, cfg.CallTimeout = m.Token, t.Logf, (&net.Dialer{}).DialContext, time.Minute
	c := newClient(cfg)
	t.Cleanup(c.close)
	return c
}

// Only NotReady answers call onNotReady, not lost calls.
func TestCallWithRetryReportsNotReady(t *testing.T) {
	notReady := &agenttest.Fault{Refuse: &agentapi.Error{Reason: agentapi.ReasonNotReady}}
	m := agenttest.NewManager()
	m.Faults = func(_ string, n int) *agenttest.Fault {
		return map[int]*agenttest.Fault{1: notReady, 2: {Drop: true}, 3: notReady}[n]
	}
	server := m.Start(t)
	waits, notReadyCalls := 0, 0
	sleep := func(context.Context, time.Duration) error {
		if waits++; waits > 3 {
			return errors.New("more waits than faults")
		}
		return nil
	}
	c := caller(t, m, Config{Servers: []string{server}, Sleep: sleep, MinBackoff: time.Second, MaxBackoff: time.Second})
	var reply agentapi.ProgressReply
	err := c.callWithRetry(t.Context(), agentapi.PathProgress, agentapi.Progress{}, &reply, func(time.Duration) { notReadyCalls++ })
	if err != nil || notReadyCalls != 2 {
		t.Errorf("onNotReady called %d times, %v, want 2", notReadyCalls, err)
	}
}

// Work without a server, such as cleaning, must find another replica for its progress.
func TestProgressFindsAnotherReplica(t *testing.T) {
	m := agenttest.NewManager()
	live := m.Start(t)
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	c := caller(t, m, Config{Servers: []string{gone.Addr().String()},
		Find: func(context.Context, string) (agentapi.BootOptions, error) {
			return agentapi.BootOptions{Server: live}, nil
		}})
	p := &progress{client: c}
	for range searchAfter + 1 {
		if err := p.send(t.Context(), agentapi.Progress{Step: agentapi.StepClean}); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Progress(); len(got) != 1 {
		t.Errorf("the other replica got %v, want one call", got)
	}
}

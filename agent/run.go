// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agentapi"
)

// minProgressInterval is used where the manager names none.
const minProgressInterval = time.Second

// session is one run of the agent.
type session struct {
	cfg    Config
	client *client
	order  agentapi.Order
	// progress of the order at hand.
	progress *progress
	// found are the disks at the beginning, with their markers.
	found []agentapi.Disk
	// memory of the running kernel, in bytes.
	memory int64
	// loaded: a live system is ready to be started.
	loaded bool
	// running is what disks are still at from before a pause.
	running erase.Running
}

// Run does one whole session: open it, get the order, work, report until the
// report is acknowledged. It returns what to do next.
//
// An action that is not empty is to be done whatever the error, which then says
// why: a final refusal is PowerOff with ErrRefused, or BootDisk where this boot was
// for an install that is committed already, or Restart of an unknown server. StartLive
// ends the agent in the kernel that Config.Kernels has loaded. With an empty action nothing
// was decided (the hardware could not be read, the context ended): the caller may
// run it again with the same Identity.
func Run(ctx context.Context, cfg Config) (agentapi.Action, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	s := &session{cfg: cfg, client: newClient(cfg)}
	defer s.client.close()
	action, err := s.run(ctx)
	if cfg.discover && (action != "" || errors.Is(err, ErrRefused)) {
		// The server is somebody's: it is left as it was.
		cfg.Log("manager: nothing was changed, restarting (%v)", err)
		return agentapi.Restart, err
	}
	if errors.Is(err, ErrRefused) {
		// An agent with an order may have written, and ends in the disk only by the
		// acknowledgement of its report (I4).
		if refusal, ok := errors.AsType[*agentapi.Error](err); ok && refusal.Action == agentapi.BootDisk && s.order.Kind == "" {
			cfg.Log("manager: %v; the disk is installed, booting it", err)
			return agentapi.BootDisk, err
		}
		cfg.Log("manager: %v; powering off", err)
		return agentapi.PowerOff, err
	}
	return action, err
}

func (s *session) run(ctx context.Context) (agentapi.Action, error) {
	interval, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	report, err := s.obey(ctx, interval)
	if err != nil {
		return "", err
	}
	if s.loaded && report.Outcome == agentapi.Succeeded {
		return agentapi.StartLive, nil
	}
	s.cfg.Log("report: %s %s %s", report.Outcome, report.Reason, report.Message)
	return s.report(ctx, report)
}

// obey gets the order and works on it. When the host is paused meanwhile (I10) the
// work ends where it is, nothing is written any more, and the order is asked for
// until there is one again: the work then starts from its beginning.
func (s *session) obey(ctx context.Context, interval time.Duration) (agentapi.Report, error) {
	request := agentapi.OrderRequest{BootID: s.cfg.Identity.BootID}
	for {
		var order agentapi.Order
		if err := s.client.call(ctx, agentapi.PathOrder, request, &order); err != nil {
			return agentapi.Report{}, err
		}
		s.order, s.loaded = order, false
		s.cfg.Log("order: %s %s (attempt %d)", order.Kind, order.InstanceID, order.Attempt)
		report, err := s.work(ctx, interval)
		if !errors.Is(err, errPaused) {
			return report, err
		}
		s.cfg.Log("manager: %v; stopped, nothing is written until there is an order again", err)
	}
}

// open reads the hardware, opens the session, and sets the clock.
func (s *session) open(ctx context.Context) (time.Duration, error) {
	disks, err := s.cfg.Disks.List(ctx) // first: it sees to drivers of devices that came late
	if err != nil {
		return 0, fmt.Errorf("list the disks: %w", err)
	}
	hardware, err := s.cfg.Probe(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the hardware: %w", err)
	}
	hardware.Disks, s.found = disks, disks
	s.cfg.Log("hardware: %s %s, serial %s, %d threads, %d MiB, %d NICs, %d disks",
		hardware.Manufacturer, hardware.Product, hardware.Serial, hardware.CPU.Threads,
		hardware.MemoryBytes>>20, len(hardware.NICs), len(hardware.Disks))
	s.memory = hardware.MemoryBytes
	if s.cfg.Memory != nil {
		s.memory = s.cfg.Memory()
	}
	var opened agentapi.Session
	request := agentapi.SessionRequest{
		BootID: s.cfg.Identity.BootID, Version: s.cfg.Version, Hardware: hardware,
	}
	if err := s.client.call(ctx, agentapi.PathSession, request, &opened); err != nil {
		return 0, err
	}
	s.cfg.Log("session: this is host %s", opened.Host)
	if err := s.cfg.SetTime(opened.Now); err != nil {
		s.cfg.Log("clock: %v", err)
	}
	return orDefault(time.Duration(opened.ProgressInterval), minProgressInterval), nil
}

// work does the order and returns the report on it. Its error says that there is
// nothing to report: the order was called off, or the agent was stopped.
func (s *session) work(ctx context.Context, interval time.Duration) (agentapi.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.progress = startProgress(ctx, s.client, progressOptions{
		orderID: s.order.ID, interval: interval, callOff: cancel,
	})
	report, err := s.do(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	s.progress.wait()
	if cause != nil {
		return agentapi.Report{}, cause
	}
	if errors.Is(err, ErrRefused) {
		return agentapi.Report{}, err
	}
	report.OrderID, report.Outcome = s.order.ID, agentapi.Succeeded
	if err != nil {
		failed, ok := errors.AsType[*Failure](err)
		if !ok {
			failed = failure(ReasonDiskFailed, err)
		}
		report.Outcome, report.Reason, report.Message = agentapi.Failed, failed.Reason, failed.Message
	}
	return report, nil
}

func (s *session) do(ctx context.Context) (agentapi.Report, error) {
	s.progress.set(agentapi.StepStarted, 0, 0)
	// Whoever looks at a disk that is still at it would wait, and not be heard.
	if err := s.running.Wait(ctx, s.eraseOptions(s.tellWorking)); err != nil {
		return agentapi.Report{}, err
	}
	switch order := s.order; {
	case s.cfg.discover != (order.Kind == agentapi.Discover):
		return agentapi.Report{}, &Failure{
			Reason:  ReasonOrderNotUnderstood,
			Message: fmt.Sprintf("an order of kind %.40q is not for this boot", order.Kind),
		}
	case order.Kind == agentapi.Inspect, order.Kind == agentapi.Discover:
		// The hardware went with the session request.
		s.progress.set(agentapi.StepInspect, 100, 0)
		return agentapi.Report{}, nil
	case order.Kind == agentapi.Install && order.Install != nil:
		return s.install(ctx, *order.Install)
	case order.Kind == agentapi.Wipe && order.Wipe != nil:
		return s.wipe(ctx, *order.Wipe)
	default:
		return agentapi.Report{}, &Failure{
			Reason:  ReasonOrderNotUnderstood,
			Message: fmt.Sprintf("agent %s cannot do an order of kind %.40q", s.cfg.Version, order.Kind),
		}
	}
}

// report repeats the report until it is acknowledged (I4). Only a successful
// install may end in booting the disk, whatever the answer says.
func (s *session) report(ctx context.Context, report agentapi.Report) (agentapi.Action, error) {
	var ack agentapi.Acknowledgement
	if err := s.client.call(ctx, agentapi.PathReport, report, &ack); err != nil {
		return "", err
	}
	installed := s.order.Kind == agentapi.Install && report.Outcome == agentapi.Succeeded
	if ack.Action == agentapi.BootDisk && installed {
		return agentapi.BootDisk, nil
	}
	return agentapi.PowerOff, nil
}

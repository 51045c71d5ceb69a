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

// minProgressInterval is used if the manager names no interval.
const minProgressInterval = time.Second

type session struct {
	cfg      Config
	client   *client
	order    agentapi.Order
	progress *progress
	// found are the disks at the start, with their markers.
	found []agentapi.Disk
	// memory of the running kernel, in bytes; 0: unknown.
	memory int64
	// loaded is set if a live system is ready to start.
	loaded bool
	// running are disk commands that outlasted the work before a pause.
	running erase.Running
}

// Run does one session: it opens it, gets the order, works, and reports until the report is
// acknowledged. It returns what to do next.
//
// The caller must carry out an action that is not empty, whatever the error:
//   - PowerOff with ErrRefused after a final refusal
//   - BootDisk with ErrRefused if this boot was for an install that is already committed
//   - Restart on an unknown server
//   - StartLive to start the kernel that Config.Kernels has loaded
//
// An empty action means that nothing was decided (the hardware could not be read, or the
// context ended): the caller may run it again with the same Identity.
func Run(ctx context.Context, cfg Config) (agentapi.Action, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return "", err
	}
	s := &session{cfg: cfg, client: newClient(cfg)}
	defer s.client.close()
	action, err := s.run(ctx)
	if cfg.discover && (action != "" || errors.Is(err, ErrRefused)) {
		cfg.Log("manager: restarting the unknown server unchanged (%v)", err)
		return agentapi.Restart, err
	}
	if errors.Is(err, ErrRefused) {
		// An agent that got an order may have written. It boots the disk only after the
		// acknowledgement of its report (I4).
		if refusal, ok := errors.AsType[*agentapi.Error](err); ok && refusal.Action == agentapi.BootDisk && s.order.Kind == "" {
			cfg.Log("manager: %v; the disk is already installed, booting it", err)
			return agentapi.BootDisk, err
		}
		cfg.Log("manager: %v; powering off", err)
		return agentapi.PowerOff, err
	}
	return action, err
}

func (s *session) run(ctx context.Context) (agentapi.Action, error) {
	interval, err := s.openSession(ctx)
	if err != nil {
		return "", err
	}
	report, err := s.runOrder(ctx, interval)
	if err != nil {
		return "", err
	}
	if s.loaded && report.Outcome == agentapi.Succeeded {
		return agentapi.StartLive, nil
	}
	s.cfg.Log("report: %s %s %s", report.Outcome, report.Reason, report.Message)
	return s.report(ctx, report)
}

// runOrder gets the order and executes it. If the host is paused meanwhile (I10), all
// writing stops. runOrder then asks for the order until the manager gives one, and starts
// from the beginning.
func (s *session) runOrder(ctx context.Context, interval time.Duration) (agentapi.Report, error) {
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
		s.cfg.Log("manager: %v; stopped writing until the manager gives an order again", err)
	}
}

// openSession reads the hardware, opens the session, and sets the clock.
func (s *session) openSession(ctx context.Context) (time.Duration, error) {
	disks, err := s.cfg.Disks.List(ctx) // first: it loads drivers for devices that appeared late
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
	s.cfg.Log("session: opened for host %s", opened.Host)
	if err := s.cfg.SetTime(opened.Now); err != nil {
		s.cfg.Log("clock: set the time: %v", err)
	}
	return orDefault(time.Duration(opened.ProgressInterval), minProgressInterval), nil
}

// work executes the order and returns the report. An error means that there is nothing to
// report: the manager called the order off, or the context ended.
func (s *session) work(ctx context.Context, interval time.Duration) (agentapi.Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.progress = startProgress(ctx, s.client, s.order.ID, interval, cancel)
	report, err := s.execute(ctx)
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

func (s *session) execute(ctx context.Context) (agentapi.Report, error) {
	s.progress.set(agentapi.StepStarted, 0, 0)
	// Access to a disk that still runs a command would block without any progress report.
	if err := s.running.Wait(ctx, s.eraseOptions(s.reportWorking)); err != nil {
		return agentapi.Report{}, err
	}
	switch order := s.order; {
	case s.cfg.discover != (order.Kind == agentapi.Discover):
		return agentapi.Report{}, failuref(ReasonOrderNotUnderstood, "execute the order: kind %.40q is not for this boot", order.Kind)
	case order.Kind == agentapi.Inspect, order.Kind == agentapi.Discover:
		// The hardware went with the session request.
		s.progress.set(agentapi.StepInspect, 100, 0)
		return agentapi.Report{}, nil
	case order.Kind == agentapi.Install && order.Install != nil:
		return s.install(ctx, *order.Install)
	case order.Kind == agentapi.Clean && order.Clean != nil:
		return s.wipe(ctx, *order.Clean)
	default:
		return agentapi.Report{}, failuref(ReasonOrderNotUnderstood, "execute the order: agent %s does not know kind %.40q", s.cfg.Version, order.Kind)
	}
}

// report repeats the report until it is acknowledged (I4). Only a successful install may
// boot the disk, whatever the answer is.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// maxErasing disks are erased side by side: it is the disks that take the time, up to
// a day each, and a server has dozens.
const maxErasing = 16

// cleaning is one disk of a wipe order.
type cleaning struct {
	disk agentapi.Disk
	ref  agentapi.DiskRef
	mode string
	// said is its last progress; done and err are its end.
	said erase.Progress
	done *agentapi.CleanedDisk
	err  error
}

// wipe cleans the disks that the order names. All of them are found and checked
// before the first write; a disk that is not named is not opened (I12). A disk that
// fails does not keep the others from being cleaned, and the order fails.
func (s *session) wipe(ctx context.Context, order agentapi.WipeOrder) (agentapi.Report, error) {
	targets, err := s.wipeTargets(ctx, order)
	if err != nil {
		return agentapi.Report{}, err
	}
	var mu sync.Mutex
	tell := func(c *cleaning, p erase.Progress) {
		mu.Lock()
		defer mu.Unlock()
		c.said = p
		s.progress.put(sumUp(targets))
	}
	s.progress.put(sumUp(targets))
	do := func(c *cleaning) {
		c.done, c.err = s.clean(ctx, c, func(p erase.Progress) { tell(c, p) })
		tell(c, erase.Progress{Bytes: c.said.Bytes, Percent: 100})
	}
	var group errgroup.Group
	group.SetLimit(maxErasing)
	for _, c := range targets {
		if c.mode == agentapi.WipeMetadata { // seconds: one after the other
			do(c)
			continue
		}
		group.Go(func() error { do(c); return nil })
	}
	_ = group.Wait()
	return wipeReport(ctx, targets)
}

func wipeReport(ctx context.Context, targets []*cleaning) (agentapi.Report, error) {
	var report agentapi.Report
	var failed []error
	for _, c := range targets {
		if c.err != nil {
			failed = append(failed, fmt.Errorf("%s (serial %q): %w", c.disk.Name, c.disk.Serial, c.err))
			continue
		}
		report.WipedDisks = append(report.WipedDisks, c.ref)
		report.Cleaned = append(report.Cleaned, *c.done)
	}
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	if len(failed) > 0 {
		return report, failure(ReasonWipeFailed, errors.Join(failed...))
	}
	return report, nil
}

// sumUp is the progress of all disks together: their bytes, the mean of their
// percentages, and the longest time that one has worked by itself.
func sumUp(targets []*cleaning) agentapi.Progress {
	out := agentapi.Progress{Step: agentapi.StepWipe}
	percent, working := 0, time.Duration(0)
	for _, c := range targets {
		out.Bytes += c.said.Bytes
		percent += c.said.Percent
		working = max(working, c.said.Working)
	}
	out.Percent, out.Seconds = int32(percent/max(1, len(targets))), int64(working.Seconds())
	return out
}

// clean does one disk. Tables and signatures go after the content, the marker last
// of all.
func (s *session) clean(ctx context.Context, c *cleaning, tell func(erase.Progress)) (*agentapi.CleanedDisk, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := &agentapi.CleanedDisk{Disk: c.ref, Mode: c.mode, Method: agentapi.WipeMetadata}
	err := s.withDisk(ctx, c.disk, func(dev block.Device) error {
		if c.mode == agentapi.WipeFull {
			result, err := erase.Disk(ctx, s.eraseTarget(dev, c.disk), s.eraseOptions(tell))
			if err != nil {
				return err
			}
			out.Method, out.FailedBefore = result.Method, result.Failed
			out.ErasedBytes, out.VerifiedBytes = result.Erased, result.Verified
		}
		zeroed, err := wipe.Metadata(ctx, dev)
		if c.mode != agentapi.WipeFull {
			out.ErasedBytes, out.VerifiedBytes = zeroed, zeroed
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.cfg.Log("wipe: %s (serial %q) is clean: %s, %d bytes read back", c.disk.Name, c.disk.Serial, out.Method, out.VerifiedBytes)
	return out, nil
}

func (s *session) eraseTarget(dev block.Device, disk agentapi.Disk) erase.Target {
	commands, ok := dev.(erase.Commands)
	if !ok {
		commands = erase.None{}
	}
	target := erase.Target{Device: dev, Commands: commands, Disk: disk}
	if s.order.Wipe != nil {
		target.JournalKey = s.order.Wipe.JournalKey
	}
	return target
}

func (s *session) eraseOptions(tell func(erase.Progress)) erase.Options {
	return erase.Options{OnProgress: tell, Log: s.cfg.Log}
}

// wipeTargets finds and checks the disks.
func (s *session) wipeTargets(ctx context.Context, order agentapi.WipeOrder) ([]*cleaning, error) {
	if len(order.Modes) > 0 && len(order.Modes) != len(order.Disks) {
		return nil, &Failure{
			Reason:  ReasonOrderNotUnderstood,
			Message: fmt.Sprintf("%d modes of cleaning for %d disks", len(order.Modes), len(order.Disks)),
		}
	}
	all, err := s.cfg.Disks.List(ctx)
	if err != nil {
		return nil, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	var targets []*cleaning
	for i, ref := range order.Disks {
		mode := order.Mode
		if len(order.Modes) > 0 {
			mode = order.Modes[i]
		}
		if mode != agentapi.WipeMetadata && mode != agentapi.WipeFull {
			return nil, &Failure{
				Reason:  ReasonOrderNotUnderstood,
				Message: fmt.Sprintf("agent %s knows no cleaning mode %.40q", s.cfg.Version, mode),
			}
		}
		disk, err := pickDisk(all, ref)
		if err != nil {
			return nil, err
		}
		if err := s.mayWipe(ctx, disk, mode, order.ReleasedInstances); err != nil {
			return nil, err
		}
		targets = append(targets, &cleaning{disk: disk, ref: ref, mode: mode})
	}
	return targets, nil
}

// mayWipe reads the marker (I8). A disk that is to be erased and cannot be read may be
// in the middle of an erasure.
func (s *session) mayWipe(ctx context.Context, disk agentapi.Disk, mode string, released []string) error {
	_, err := s.guard(ctx, disk, released)
	failed, ok := errors.AsType[*Failure](err)
	if err == nil || mode != agentapi.WipeFull || !ok || failed.Reason != ReasonDiskFailed {
		return err
	}
	readyErr := s.withDisk(ctx, disk, func(dev block.Device) error {
		return erase.Ready(ctx, s.eraseTarget(dev, disk), s.eraseOptions(func(p erase.Progress) {
			s.progress.put(agentapi.Progress{Step: agentapi.StepWipe, Seconds: int64(p.Working.Seconds())})
		}))
	})
	if readyErr != nil {
		return failure(ReasonWipeFailed, fmt.Errorf("%s: %w", disk.Name, errors.Join(err, readyErr)))
	}
	_, err = s.guard(ctx, disk, released)
	return err
}

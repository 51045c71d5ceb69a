// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/agent/erase"
	"github.com/ingot-metal/ingot/agent/wipe"
	"github.com/ingot-metal/ingot/agentapi"
)

// maxErasing disks are erased side by side: it is the disks that take the time, up to
// a day each, and a server has dozens.
const maxErasing = 16

// cleaning is one disk of a wipe order.
type cleaning struct {
	// disk is open until it is clean.
	disk heldDisk
	ref  agentapi.DiskRef
	mode string
	// cutOff: an earlier erasure had left it locked.
	cutOff bool
	// said is its last progress; done and err are its end.
	said erase.Progress
	done *agentapi.CleanedDisk
	err  error
}

// wipe cleans the disks that the order names. All of them are found, opened and checked
// before the first write, and a disk stays open until it is clean; one that is not named
// is not opened (I12). A disk that
// fails does not keep the others from being cleaned, and the order fails.
func (s *session) wipe(ctx context.Context, order agentapi.WipeOrder) (agentapi.Report, error) {
	targets, err := s.openTargets(ctx, order)
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
		if err := c.close(); err != nil {
			c.err = errors.Join(c.err, fmt.Errorf("close: %w", err))
		}
		tell(c, erase.Progress{Bytes: c.said.Bytes, Percent: 100})
	}
	var group errgroup.Group
	group.SetLimit(maxErasing)
	for _, line := range lines(targets) {
		work := func() error {
			for _, c := range line {
				do(c)
			}
			return nil
		}
		if !slices.ContainsFunc(line, func(c *cleaning) bool { return c.mode != agentapi.WipeMetadata }) {
			_ = work() // seconds: one after the other
			continue
		}
		group.Go(work)
	}
	_ = group.Wait()
	return wipeReport(ctx, targets)
}

// lines are the disks to be cleaned, in one line those that are told apart by their path
// alone: they may be two paths to one disk, which is not to be erased twice at a time.
func lines(targets []*cleaning) [][]*cleaning {
	var out [][]*cleaning
	for _, c := range targets {
		same := func(line []*cleaning) bool {
			return slices.ContainsFunc(line, func(other *cleaning) bool {
				return other.disk.Ref().Matches(c.disk.Disk) || c.disk.Ref().Matches(other.disk.Disk)
			})
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = append(out[i], c)
		} else {
			out = append(out, []*cleaning{c})
		}
	}
	return out
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
// of all. Erasing begins with the tables' sectors, so what they lead to goes before: a disk
// whose erasing was given up shows nothing old, whatever mode cleans it then.
func (s *session) clean(ctx context.Context, c *cleaning, tell func(erase.Progress)) (*agentapi.CleanedDisk, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := &agentapi.CleanedDisk{Disk: c.ref, Mode: c.mode, Method: agentapi.WipeMetadata}
	if c.mode == agentapi.WipeFull {
		if err := wipe.Inside(ctx, c.disk.dev); err != nil && ctx.Err() == nil { // erasing is what counts
			s.cfg.Log("wipe: %s (serial %q): before it is erased: %v", c.disk.Name, c.disk.Serial, err)
		}
		target := s.eraseTarget(c.disk)
		target.CutOff = c.cutOff && s.order.Attempt > 1
		result, err := erase.Disk(ctx, target, s.eraseOptions(tell))
		if err != nil {
			return nil, err
		}
		out.Method, out.FailedBefore = result.Method, result.Failed
		out.ErasedBytes, out.VerifiedBytes = result.Erased, result.Verified
		if err := wipe.Erased(ctx, c.disk.dev); err != nil {
			return nil, err
		}
	} else {
		zeroed, err := wipe.Metadata(ctx, c.disk.dev)
		if err != nil {
			return nil, err
		}
		out.ErasedBytes, out.VerifiedBytes = zeroed, zeroed
	}
	s.cfg.Log("wipe: %s (serial %q) is clean: %s, %d bytes read back", c.disk.Name, c.disk.Serial, out.Method, out.VerifiedBytes)
	return out, nil
}

// openTargets opens all disks that the order names, and checks them. What is open is
// looked for again: while a disk is open no other one gets its name, so what is found
// under it now is what will be written, hours later perhaps.
func (s *session) openTargets(ctx context.Context, order agentapi.WipeOrder) (targets []*cleaning, err error) {
	if targets, err = s.understand(order); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(targets))
		}
	}()
	all, err := s.listDisks(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range targets {
		if c.disk.Disk, err = pickDisk(all, c.ref); err != nil {
			return targets, err
		}
		if c.disk.dev, err = s.cfg.Disks.Open(ctx, c.disk.Disk); err != nil {
			return targets, failure(ReasonDiskFailed, fmt.Errorf("%s: open: %w", c.disk.Name, err))
		}
	}
	if all, err = s.listDisks(ctx); err != nil {
		return targets, err
	}
	var refused refusals
	for _, c := range targets {
		now, err := pickDisk(all, c.ref)
		if err != nil {
			return targets, err
		}
		if now.Name != c.disk.Name {
			return targets, &Failure{Reason: ReasonDiskNotFound, Message: fmt.Sprintf("%s became %s while it was opened", describe(c.ref), now.Name)}
		}
		_, c.cutOff, err = s.ownerOf(ctx, c.disk, order.ReleasedInstances)
		if c.mode == agentapi.WipeFull && errors.Is(err, erase.ErrStuck) {
			err = nil // nobody's: what was on it cannot be read ever again, the marker least of all
		}
		if err := refused.keep(err); err != nil {
			return targets, err
		}
	}
	return targets, refused.failure()
}

func (s *session) listDisks(ctx context.Context) ([]agentapi.Disk, error) {
	all, err := s.cfg.Disks.Names(ctx)
	if err != nil {
		return nil, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	return all, nil
}

// understand reads the order without looking at a disk.
func (s *session) understand(order agentapi.WipeOrder) ([]*cleaning, error) {
	if len(order.Modes) > 0 && len(order.Modes) != len(order.Disks) {
		return nil, &Failure{
			Reason:  ReasonOrderNotUnderstood,
			Message: fmt.Sprintf("%d modes of cleaning for %d disks", len(order.Modes), len(order.Disks)),
		}
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
		targets = append(targets, &cleaning{ref: ref, mode: mode})
	}
	return targets, nil
}

// close ends the hold on the disk; it does nothing where that was never taken.
func (c *cleaning) close() error {
	if c.disk.dev == nil {
		return nil
	}
	err := c.disk.dev.Close()
	c.disk.dev = nil
	return err
}

func closeAll(targets []*cleaning) error {
	var failed []error
	for _, c := range targets {
		failed = append(failed, c.close())
	}
	return errors.Join(failed...)
}

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

// maxErasing is the number of disks erased in parallel. Erasing takes up to a day per disk,
// the disks do the work, and a server may have dozens.
const maxErasing = 16

type diskCleaning struct {
	// disk is open until it is clean.
	disk openDisk
	ref  agentapi.DiskRef
	mode string
	// cutOff is set if an interrupted erasure had left the disk locked.
	cutOff bool
	// progress is the last one; done and err are the result.
	progress erase.Progress
	done     *agentapi.CleanedDisk
	err      error
}

// wipe cleans the disks that the order names. It finds, opens and checks all of them before
// the first write, and opens no other disk (I12). A disk stays open until it is clean. If
// one disk fails, the others are still cleaned, and the order fails.
func (s *session) wipe(ctx context.Context, order agentapi.CleanOrder) (agentapi.Report, error) {
	targets, err := s.openTargets(ctx, order)
	if err != nil {
		return agentapi.Report{}, err
	}
	var mu sync.Mutex
	update := func(c *diskCleaning, p erase.Progress) {
		mu.Lock()
		defer mu.Unlock()
		c.progress = p
		s.progress.put(totalProgress(targets))
	}
	s.progress.put(totalProgress(targets))
	do := func(c *diskCleaning) {
		c.done, c.err = s.clean(ctx, c, func(p erase.Progress) { update(c, p) })
		if err := c.disk.close(); err != nil {
			c.err = errors.Join(c.err, fmt.Errorf("close: %w", err))
		}
		update(c, erase.Progress{Bytes: c.progress.Bytes, Percent: 100})
	}
	var group errgroup.Group
	group.SetLimit(maxErasing)
	for _, paths := range groupPaths(targets) {
		work := func() error {
			for _, c := range paths {
				do(c)
			}
			return nil
		}
		if !slices.ContainsFunc(paths, func(c *diskCleaning) bool { return c.mode != agentapi.CleanMetadata }) {
			_ = work() // takes seconds
			continue
		}
		group.Go(work)
	}
	_ = group.Wait()
	return wipeReport(ctx, targets)
}

// groupPaths groups disks that only their path distinguishes. They may be two paths to one
// disk, which must not be erased twice at the same time.
func groupPaths(targets []*diskCleaning) [][]*diskCleaning {
	var out [][]*diskCleaning
	for _, c := range targets {
		same := func(group []*diskCleaning) bool {
			return slices.ContainsFunc(group, func(other *diskCleaning) bool {
				return other.disk.Ref().Matches(c.disk.Disk) || c.disk.Ref().Matches(other.disk.Disk)
			})
		}
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i] = append(out[i], c)
		} else {
			out = append(out, []*diskCleaning{c})
		}
	}
	return out
}

func wipeReport(ctx context.Context, targets []*diskCleaning) (agentapi.Report, error) {
	var report agentapi.Report
	var failed []error
	for _, c := range targets {
		if c.err != nil {
			failed = append(failed, fmt.Errorf("%s (serial %q): %w", c.disk.Name, c.disk.Serial, c.err))
			continue
		}
		report.CleanedDisks = append(report.CleanedDisks, c.ref)
		report.Cleaned = append(report.Cleaned, *c.done)
	}
	if ctx.Err() != nil {
		return report, context.Cause(ctx)
	}
	if len(failed) > 0 {
		return report, failure(ReasonCleanFailed, errors.Join(failed...))
	}
	return report, nil
}

// totalProgress combines the progress of all disks: the sum of the bytes, the mean of the
// percentages, and the longest time that a disk has worked on its own.
func totalProgress(targets []*diskCleaning) agentapi.Progress {
	out := agentapi.Progress{Step: agentapi.StepClean}
	percent, working := 0, time.Duration(0)
	for _, c := range targets {
		out.Bytes += c.progress.Bytes
		percent += c.progress.Percent
		working = max(working, c.progress.Working)
	}
	out.Percent, out.Seconds = int32(percent/max(1, len(targets))), int64(working.Seconds())
	return out
}

// clean cleans one disk: the content first, then tables and signatures, the marker last.
// Before an erasure, which starts at the tables, it removes what the tables lead to: if the
// erasure is interrupted, nothing old reappears, whatever mode cleans the disk later.
func (s *session) clean(ctx context.Context, c *diskCleaning, onProgress func(erase.Progress)) (*agentapi.CleanedDisk, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := &agentapi.CleanedDisk{Disk: c.ref, Mode: c.mode, Method: agentapi.CleanMetadata}
	if c.mode == agentapi.CleanFull {
		if err := wipe.Inside(ctx, c.disk.dev); err != nil && ctx.Err() == nil { // not fatal: the erasure follows
			s.cfg.Log("wipe: %s (serial %q): remove signatures before the erasure: %v", c.disk.Name, c.disk.Serial, err)
		}
		target := s.eraseTarget(c.disk)
		target.CutOff = c.cutOff && s.order.Attempt > 1
		result, err := erase.Disk(ctx, target, s.eraseOptions(onProgress))
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
	s.cfg.Log("wipe: cleaned %s (serial %q): %s, %d bytes verified", c.disk.Name, c.disk.Serial, out.Method, out.VerifiedBytes)
	return out, nil
}

// openTargets opens and checks all disks that the order names. After the open it looks each
// up again: no other disk gets the name of an open disk, so the name is certain from then
// on, even if the write follows hours later.
func (s *session) openTargets(ctx context.Context, order agentapi.CleanOrder) (targets []*diskCleaning, err error) {
	if targets, err = s.parseWipeOrder(order); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			for _, c := range targets {
				err = errors.Join(err, c.disk.close())
			}
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
	var conflicts ownerConflicts
	for _, c := range targets {
		now, err := pickDisk(all, c.ref)
		if err != nil {
			return targets, err
		}
		if err := checkSameName(c.ref, c.disk.Name, now.Name); err != nil {
			return targets, err
		}
		_, c.cutOff, err = s.checkOpenOwner(ctx, c.disk, order.ReleasedInstances)
		if c.mode == agentapi.CleanFull && errors.Is(err, erase.ErrStuck) {
			err = nil // the disk's content, marker included, can never be read again
		}
		if err := conflicts.collect(err); err != nil {
			return targets, err
		}
	}
	return targets, conflicts.failure()
}

// checkSameName fails if a disk had another name before it was opened.
func checkSameName(ref agentapi.DiskRef, before, after string) error {
	if before == after {
		return nil
	}
	return failuref(agentapi.FailureDiskNotFound, "%s changed its name from %s to %s while it was being opened", describe(ref), before, after)
}

func (s *session) listDisks(ctx context.Context) ([]agentapi.Disk, error) {
	all, err := s.cfg.Disks.Names(ctx)
	if err != nil {
		return nil, failure(ReasonDiskFailed, fmt.Errorf("list the disks: %w", err))
	}
	return all, nil
}

// parseWipeOrder validates the order without access to disks.
func (s *session) parseWipeOrder(order agentapi.CleanOrder) ([]*diskCleaning, error) {
	if len(order.Modes) > 0 && len(order.Modes) != len(order.Disks) {
		return nil, failuref(ReasonOrderNotUnderstood, "parse the wipe order: %d modes for %d disks", len(order.Modes), len(order.Disks))
	}
	var targets []*diskCleaning
	for i, ref := range order.Disks {
		mode := order.Mode
		if len(order.Modes) > 0 {
			mode = order.Modes[i]
		}
		if mode != agentapi.CleanMetadata && mode != agentapi.CleanFull {
			return nil, failuref(ReasonOrderNotUnderstood, "parse the wipe order: agent %s does not know mode %.40q", s.cfg.Version, mode)
		}
		targets = append(targets, &diskCleaning{ref: ref, mode: mode})
	}
	return targets, nil
}

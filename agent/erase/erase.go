// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// ErrNotErased reports that no method worked. The message names the failure of each.
var ErrNotErased = errors.New("erase the disk")

// ErrNotSupported reports that the disk, or its attachment, does not know a command.
var ErrNotSupported = errors.New("not supported by this disk")

// Commands are a disk's commands in addition to reading and writing.
type Commands interface {
	// NVMe sends an admin command to the controller of an NVMe disk. For other disks it
	// returns ErrNotSupported.
	NVMe(ctx context.Context, cmd NVMeCommand) error
	// Namespace returns the disk's NVMe namespace ID.
	Namespace() (uint32, error)
	// ATA sends a command to an ATA disk. For other disks it returns ErrNotSupported.
	ATA(ctx context.Context, cmd ATACommand) error
	// Discard marks a range as unused. Secure requires that no copy of it remains.
	Discard(ctx context.Context, r DiscardRange) error
}

// DiscardRange is a range in bytes.
type DiscardRange struct {
	Off, Len int64
	Secure   bool
}

type Target struct {
	// Device is open for writing. Nothing else uses it.
	Device   block.Device
	Commands Commands
	Disk     agentapi.Disk
	// JournalKey is the order's secret, the same after a restart. Overwriting resumes only
	// with the same key. Empty: it never resumes.
	JournalKey agentapi.Sensitive
	// CutOff is set if Ready found that the drive's own erase was interrupted, and another
	// interruption is likely. The drive's erase command is then not used.
	CutOff bool
}

// Options of Disk.
type Options struct {
	// OnProgress gets the progress. It must not block. Nil: no progress.
	OnProgress func(Progress)
	// Sleep waits between two queries of a disk, and returns early with the context's error.
	// Nil: a timer.
	Sleep func(context.Context, time.Duration) error
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
	// Log gets lines for display. Nil: no output.
	Log func(format string, args ...any)
	// Running collects commands that continue after the context's end. Nil: they are ignored.
	Running *Running
}

type Progress struct {
	Bytes   int64
	Percent int
	// Working is the time for which the disk has been erasing itself; 0 while it is written.
	Working time.Duration
}

// Result describes a successful erasure.
type Result struct {
	Method string
	// Erased is the size of the disk, Verified the amount read back, in bytes.
	Erased, Verified int64
	// Failed names better methods of the disk that failed, with the causes.
	Failed string
}

// The methods, best first.
const (
	NVMeSanitizeBlock      = "NVMeSanitizeBlock"
	NVMeSanitizeCrypto     = "NVMeSanitizeCrypto"
	NVMeFormatCrypto       = "NVMeFormatCrypto"
	NVMeFormat             = "NVMeFormat"
	ATAEnhancedSecureErase = "ATAEnhancedSecureErase"
	ATASecureErase         = "ATASecureErase"
	SecureDiscard          = "SecureDiscard"
	DiscardAndZero         = "DiscardAndZero"
	Overwrite              = "Overwrite"
)

type method struct {
	name string
	run  func(ctx context.Context) error
	// zeroes is set if the whole disk reads as zero afterwards.
	zeroes bool
	// from is the byte at which the method resumes: there are no canaries before it.
	from int64
}

type eraser struct {
	Target
	opts Options
	size int64
	// isATA is set once the disk has answered as an ATA drive.
	isATA bool
	// sanitizing is set once a sanitize command was sent.
	sanitizing bool
}

// Disk erases a disk and verifies it. The context's end stops it with its cause, but a
// command that the disk is executing continues.
func Disk(ctx context.Context, target Target, opts Options) (Result, error) {
	e := &eraser{Target: target, opts: opts.withDefaults(), size: target.Device.Size()}
	var failed []string
	_, err := e.makeReady(ctx)
	if errors.Is(err, ErrStuck) {
		err = e.sanitizeAgain(ctx)
	}
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrNotErased, err)
	}
	methods, problem := e.methods(ctx)
	if problem != "" {
		failed = append(failed, problem)
	}
	for _, m := range methods {
		e.opts.Log("erase: %s by %s", e.Target.Disk.Name, m.name)
		verified, err := e.try(ctx, m)
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if err == nil {
			if err := e.checkNoPassword(ctx); err != nil {
				return Result{}, fmt.Errorf("%w: erased by %s, but unusable: %w", ErrNotErased, m.name, err)
			}
			return Result{Method: m.name, Erased: e.size, Verified: verified, Failed: strings.Join(failed, "; ")}, nil
		}
		if !errors.Is(err, ErrNotSupported) {
			e.opts.Log("erase: %s: %s: %v", e.Target.Disk.Name, m.name, err)
			failed = append(failed, fmt.Sprintf("%s: %v", m.name, err))
		}
		if errors.Is(err, errAtWork) {
			break
		}
		if err := e.awaitNext(ctx); err != nil {
			failed = append(failed, err.Error())
			break
		}
	}
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	return Result{}, fmt.Errorf("%w: %s", ErrNotErased, strings.Join(failed, "; "))
}

// Ready waits for an earlier erasure that the disk is still executing, or unlocks the disk
// after one: until then it cannot be read. It changes no content. cutOff reports that the
// drive was locked, so its erase was interrupted.
func Ready(ctx context.Context, target Target, opts Options) (cutOff bool, err error) {
	e := &eraser{Target: target, opts: opts.withDefaults()}
	return e.makeReady(ctx)
}

func (e *eraser) makeReady(ctx context.Context) (cutOff bool, err error) {
	if e.isNVMe() {
		return false, e.settleSanitize(ctx)
	}
	return e.unlockATA(ctx)
}

// awaitNext waits after a failed method until the disk accepts another. It fails if the disk
// will not: the other methods would fail as well, with misleading errors.
func (e *eraser) awaitNext(ctx context.Context) error {
	if !e.sanitizing {
		return nil
	}
	err := e.settleSanitize(ctx)
	if errors.Is(err, errAtWork) || errors.Is(err, ErrStuck) || ctx.Err() != nil {
		return err
	}
	return nil // the method has already reported a failed sanitize
}

func (e *eraser) isNVMe() bool { return strings.HasPrefix(e.Target.Disk.Name, "/dev/nvme") }

func (o Options) withDefaults() Options {
	if o.OnProgress == nil {
		o.OnProgress = func(Progress) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Sleep == nil {
		o.Sleep = wait.For
	}
	return o
}

// try runs one method between planting and verifying the canaries.
func (e *eraser) try(ctx context.Context, m method) (verified int64, err error) {
	if err := e.plant(ctx, m.from); err != nil {
		return 0, err
	}
	if err := m.run(ctx); err != nil {
		return 0, err
	}
	return e.verify(ctx, m)
}

// methods returns the disk's methods, best first. problem describes why a better one of the
// disk cannot be used.
func (e *eraser) methods(ctx context.Context) (list []method, problem string) {
	if from := e.resumeFrom(); from > 0 {
		return []method{e.overwriting(from)}, "better methods had failed or were unavailable when an earlier boot started to overwrite"
	}
	if e.isNVMe() {
		list, problem = e.nvmeMethods(ctx)
	} else {
		list, problem = e.ataMethods(ctx)
	}
	if !e.Target.Disk.Rotational {
		list = append(list,
			method{name: SecureDiscard, run: func(ctx context.Context) error { return e.discard(ctx, true) }},
			method{name: DiscardAndZero, zeroes: true, run: e.discardAndZero})
	}
	return append(list, e.overwriting(0)), problem
}

func (e *eraser) overwriting(from int64) method {
	return method{name: Overwrite, zeroes: true, from: from, run: func(ctx context.Context) error { return e.overwrite(ctx, from) }}
}

// deadline bounds a command that the disk executes on its own: twice its estimate, within
// bounds.
func deadline(estimate time.Duration) time.Duration {
	const least, most = 2 * time.Hour, 7 * 24 * time.Hour
	return min(max(2*estimate, least), most)
}

// beat reports progress while the disk works on its own, until the returned function is
// called. It stops at the deadline, so that the manager can give up the agent.
func (e *eraser) beat(ctx context.Context, limit time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done, start := make(chan struct{}), e.opts.Now()
	go func() {
		defer close(done)
		for e.opts.Sleep(ctx, beatInterval) == nil {
			working := e.opts.Now().Sub(start)
			if working > limit {
				return
			}
			e.opts.OnProgress(Progress{Percent: int(min(99, 100*working/limit)), Working: working})
		}
	}()
	return func() { cancel(); <-done }
}

const beatInterval = 20 * time.Second

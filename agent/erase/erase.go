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

// ErrNotErased: no method worked; the message says why for each.
var ErrNotErased = errors.New("the disk could not be erased")

// ErrNotSupported: the disk, or what it is attached to, does not know a command.
var ErrNotSupported = errors.New("not supported by this disk")

// Commands are what a disk understands beside reading and writing.
type Commands interface {
	// NVMe sends an admin command to the controller of an NVMe disk. Other disks
	// return ErrNotSupported.
	NVMe(ctx context.Context, cmd NVMeCommand) error
	// Namespace is the number of the NVMe namespace that the disk is.
	Namespace() (uint32, error)
	// ATA sends a command to an ATA disk. Other disks return ErrNotSupported.
	ATA(ctx context.Context, cmd ATACommand) error
	// Discard tells the disk that a range is not needed any more; secure demands that
	// no copy of it stays.
	Discard(ctx context.Context, r DiscardRange) error
}

// DiscardRange is a range in bytes.
type DiscardRange struct {
	Off, Len int64
	Secure   bool
}

// Target is one disk.
type Target struct {
	// Device is open for writing, and nothing else uses it.
	Device   block.Device
	Commands Commands
	// Disk is what is known of it.
	Disk agentapi.Disk
	// JournalKey is a secret of whoever orders the work, the same after a restart:
	// overwriting goes on only where it was cut off under the same key. Empty: it never
	// goes on.
	JournalKey agentapi.Sensitive
	// CutOff: Ready has found that an earlier try was cut off while the drive erased
	// itself, and there is reason to think that it would be again. The drive is then not
	// told to once more.
	CutOff bool
}

// Options of Disk.
type Options struct {
	// OnProgress is called while there is some: bytes erased, the percentage, and, where
	// the disk works by itself, for how long it has. It must not block; nil does nothing.
	OnProgress func(Progress)
	// Sleep waits between two looks at a disk that works by itself; it returns early
	// with the context's error. A timer when nil.
	Sleep func(context.Context, time.Duration) error
	// Now is the clock; time.Now when nil.
	Now func() time.Time
	// Log receives lines for people; nothing when nil.
	Log func(format string, args ...any)
	// Running keeps what disks are still at when the work around it is called off; nobody
	// waits for it when nil.
	Running *Running
}

// Progress of one disk.
type Progress struct {
	Bytes   int64
	Percent int
	// Working is how long the disk has been at it by itself, 0 where it is written.
	Working time.Duration
}

// Result says what was done.
type Result struct {
	// Method is one of the names below.
	Method string
	// Erased bytes: the size of the disk. Verified bytes were read back.
	Erased, Verified int64
	// Failed names better methods that the disk has and that failed, and why.
	Failed string
}

// The methods, the best first.
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

// method is one way for the disk at hand.
type method struct {
	name string
	run  func(ctx context.Context) error
	// zeroes: afterwards the whole disk reads as zero.
	zeroes bool
	// resumes at this byte: no canaries before it.
	from int64
}

// eraser is the work on one disk.
type eraser struct {
	Target
	opts Options
	size int64
	// ata: the disk has answered as an ATA drive.
	ata bool
	// told: the controller was told to sanitize.
	told bool
}

// Disk erases a disk and verifies it. The context's end stops it with its cause; a
// command that the disk is at work on goes on inside it.
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
			if err := e.leaveOpen(ctx); err != nil {
				return Result{}, fmt.Errorf("%w: it is erased by %s, and cannot be used: %w", ErrNotErased, m.name, err)
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

// Ready brings a disk back that an earlier erasure left at work, or locked: until then
// it cannot be read. Nothing on it changes that has not changed. cutOff says that a drive
// was locked: it got no end of the erase that it was told to do.
func Ready(ctx context.Context, target Target, opts Options) (cutOff bool, err error) {
	e := &eraser{Target: target, opts: opts.withDefaults()}
	return e.makeReady(ctx)
}

func (e *eraser) makeReady(ctx context.Context) (cutOff bool, err error) {
	if e.isNVMe() {
		return false, e.settleSanitize(ctx)
	}
	return e.openATA(ctx)
}

// awaitNext waits until the disk takes another method after one that failed. It fails where
// the disk will not: each would fail as well, for a reason that misleads.
func (e *eraser) awaitNext(ctx context.Context) error {
	if !e.told {
		return nil
	}
	err := e.settleSanitize(ctx)
	if errors.Is(err, errAtWork) || errors.Is(err, ErrStuck) || ctx.Err() != nil {
		return err
	}
	return nil // one that failed now has failed already for a method
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

// try runs one method between two looks at the disk.
func (e *eraser) try(ctx context.Context, m method) (verified int64, err error) {
	if err := e.plant(ctx, m.from); err != nil {
		return 0, err
	}
	if err := m.run(ctx); err != nil {
		return 0, err
	}
	return e.verify(ctx, m)
}

// methods are what the disk can, the best first; problem says why a better one that
// it has cannot be used.
func (e *eraser) methods(ctx context.Context) (list []method, problem string) {
	if from := e.resumeFrom(); from > 0 {
		return []method{e.overwriting(from)}, "better methods had failed, or were not there, when the overwriting began before this boot"
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

// deadline bounds a command that the disk does by itself: twice what it says, and
// something for those that say nothing.
func deadline(said time.Duration) time.Duration {
	const least, most = 2 * time.Hour, 7 * 24 * time.Hour
	return min(max(2*said, least), most)
}

// beat tells of a disk that works by itself until the returned function is called,
// and not beyond the deadline: who hears nothing new then may give it up.
func (e *eraser) beat(ctx context.Context, limit time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done, began := make(chan struct{}), e.opts.Now()
	go func() {
		defer close(done)
		for e.opts.Sleep(ctx, beatInterval) == nil {
			working := e.opts.Now().Sub(began)
			if working > limit {
				return
			}
			e.opts.OnProgress(Progress{Percent: int(min(99, 100*working/limit)), Working: working})
		}
	}()
	return func() { cancel(); <-done }
}

const beatInterval = 20 * time.Second

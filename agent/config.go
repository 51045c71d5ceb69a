// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// Disks are the disks of the server.
type Disks interface {
	// List returns the whole, writable disks, but removable ones of USB, as they are now, with
	// the marker of each that could be read: for people, and to refuse an install (noOldSystem).
	List(ctx context.Context) ([]agentapi.Disk, error)
	// Names is List without the markers. It reads no disk, and so waits for none.
	Names(ctx context.Context) ([]agentapi.Disk, error)
	// Open opens one of them for writing. The caller closes it.
	Open(ctx context.Context, disk agentapi.Disk) (block.Device, error)
}

// Seeder writes the seed of the first boot into the system installed on a disk.
// The disk is not open for writing meanwhile. It returns when the seed is durable.
type Seeder interface {
	Seed(ctx context.Context, disk agentapi.Disk, seed agentapi.Bootstrap) error
}

// Config is everything that Run knows of the world.
type Config struct {
	// Servers (host:port, tried in turn), Pins and Token come from the boot (see
	// Arguments), and so does Files, the base URL of the boot server; it may be empty
	// where orders give whole URLs.
	Servers []string
	Files   string
	Pins    []Pin
	Token   agentapi.Sensitive
	// Find asks for another replica when none of Servers answers, most likely by
	// DHCP; avoid is the one that does not. A token that it returns takes the place of
	// Token, pins do not count. It returns when its context ends. Nil: there is no
	// other.
	Find func(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	// discover: nobody knows the server, as Token says. The agent reports the hardware,
	// does no order of another kind, and ends in Restart whatever the manager says.
	discover bool
	// Identity is made once a boot by NewIdentity.
	Identity *Identity
	// Version of the agent, for people.
	Version string

	// Probe reads the hardware.
	Probe  func(ctx context.Context) (agentapi.Hardware, error)
	Disks  Disks
	Seeder Seeder
	// Memory is what the running kernel manages, in bytes, which may be less than the
	// server has; nil: as much as Probe says.
	Memory func() int64
	// Assembles checks that the system installed on a disk can assemble a software RAID,
	// before it is relied on to. An error is seed.ErrNoAssembly, seed.ErrNoRoot or
	// seed.ErrIgnition where the image is to blame, and any other where it could not be
	// looked into. Nil: nothing is checked.
	Assembles func(ctx context.Context, disk agentapi.Disk) error
	// Kernels starts live systems; nil: an order to start one fails.
	Kernels Kernels

	// SetTime sets system clock and RTC; nil leaves the clock alone.
	SetTime func(time.Time) error
	// Dial connects to the manager and to the image server; net.Dialer's when nil.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log prints one line for people on the console; nil prints nothing. It never
	// gets a secret.
	Log func(format string, args ...any)
	// Sleep waits; it returns early with the context's cause. A timer when nil.
	Sleep func(ctx context.Context, d time.Duration) error
	// CallTimeout bounds one call to the manager; 30 s when zero.
	CallTimeout time.Duration
	// ImageStall is how long the image server may be silent before it counts as lost;
	// 1 minute when zero.
	ImageStall time.Duration
	// Backoff between failed calls grows from MinBackoff to MaxBackoff with jitter;
	// 1 s and 30 s when zero.
	MinBackoff, MaxBackoff time.Duration
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case len(c.Servers) == 0 || len(c.Pins) == 0 || c.Token == "":
		return c, errors.New("agent: servers, pins and token are required")
	case c.Identity == nil || c.Probe == nil || c.Disks == nil || c.Seeder == nil:
		return c, errors.New("agent: identity, probe, disks and seeder are required")
	}
	c.discover = agentapi.ForStranger(c.Token)
	if c.SetTime == nil {
		c.SetTime = func(time.Time) error { return nil }
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if c.Sleep == nil {
		c.Sleep = wait.For
	}
	c.CallTimeout = orDefault(c.CallTimeout, 30*time.Second)
	c.MinBackoff = orDefault(c.MinBackoff, time.Second)
	c.MaxBackoff = orDefault(c.MaxBackoff, 30*time.Second)
	return c, nil
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Failure is an error of an order's work that is reported to the manager: a
// stable reason and a message for people, free of secrets.
type Failure struct {
	Reason  string
	Message string
	Err     error
}

// Error implements error.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failure gives an error a reason; one that has a reason already keeps that.
func failure(reason string, err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		reason = known.Reason
	}
	return &Failure{Reason: reason, Message: err.Error(), Err: err}
}

// The reasons of a Failure.
const (
	// ReasonDiskNotFound and ReasonDiskAmbiguous: not exactly one disk matches.
	ReasonDiskNotFound  = agentapi.FailureDiskNotFound
	ReasonDiskAmbiguous = "DiskAmbiguous"
	// ReasonDiskOwnedByOther: the marker names an instance that was not released.
	ReasonDiskOwnedByOther = "DiskOwnedByOther"
	// ReasonDiskTooSmall: the decoded image does not fit.
	ReasonDiskTooSmall = agentapi.FailureDiskTooSmall
	// ReasonDiskFailed: reading or writing the disk failed, or it did not return
	// what was written.
	ReasonDiskFailed = "DiskFailed"
	// The image is to blame for these three.
	ReasonImageUnavailable = agentapi.FailureImageUnavailable
	ReasonChecksumMismatch = agentapi.FailureChecksumMismatch
	ReasonImageInvalid     = agentapi.FailureImageInvalid
	// ReasonTransferFailed: the image server could not be reached, or went silent,
	// for longer than the agent's patience.
	ReasonTransferFailed = "TransferFailed"
	// ReasonMirrorRefused: the disks that were chosen cannot be one mirror.
	ReasonMirrorRefused = agentapi.FailureMirrorRefused
	// ReasonSectorsDiffer: the image is for disks with sectors of another size.
	ReasonSectorsDiffer = agentapi.FailureSectorsDiffer
	// ReasonOldSystem: another disk holds the system of a released instance.
	ReasonOldSystem = agentapi.FailureOldSystem
	// ReasonSeedFailed: the installed system could not be given its seed.
	ReasonSeedFailed = "SeedFailed"
	// ReasonLiveRefused: the live system is to blame: this kernel does not start it, or it
	// does not fit.
	ReasonLiveRefused = agentapi.FailureLiveRefused
	// ReasonLiveFailed: the live system could not be loaded or started.
	ReasonLiveFailed = "LiveSystemFailed"
	// ReasonWipeFailed: a disk could not be cleaned.
	ReasonWipeFailed = "WipeFailed"
	// ReasonOrderNotUnderstood: an order of a kind or mode this agent does not know.
	ReasonOrderNotUnderstood = "OrderNotUnderstood"
)

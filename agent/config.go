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

// Disks gives access to the server's disks.
type Disks interface {
	// List returns the whole, writable disks except removable USB disks, with each marker
	// that could be read. The markers are informational and used by checkNoOldSystem.
	List(ctx context.Context) ([]agentapi.Disk, error)
	// Names returns the same disks without markers. It reads no disk, so that a hanging
	// disk cannot block it.
	Names(ctx context.Context) ([]agentapi.Disk, error)
	// Open opens a disk for writing. The caller closes it.
	Open(ctx context.Context, disk agentapi.Disk) (block.Device, error)
}

// Seeder writes the first-boot data into the system installed on a disk, which must not be
// open for writing. Seed returns when the data is durable.
type Seeder interface {
	Seed(ctx context.Context, disk agentapi.Disk, seed agentapi.Bootstrap) error
}

// Config is the environment of Run.
type Config struct {
	// Servers (host:port, tried in turn), Pins and Token come from the boot (see
	// Arguments). Files is the base URL of the boot server; it may be empty if orders
	// contain absolute URLs.
	Servers []string
	Files   string
	Pins    []Pin
	Token   agentapi.Sensitive
	// Find looks for another replica, normally by DHCP, if none of Servers answers. avoid
	// is the server that does not answer. A returned token replaces Token; pins are
	// ignored. Find returns when its context ends. Nil: there is no other replica.
	Find func(ctx context.Context, avoid string) (agentapi.BootOptions, error)
	// discover is set if Token is for an unknown server. The agent then reports the
	// hardware, executes no other order, and always ends in Restart.
	discover bool
	Identity *Identity
	Version  string

	Probe  func(ctx context.Context) (agentapi.Hardware, error)
	Disks  Disks
	Seeder Seeder
	// Memory returns the memory that the running kernel manages, in bytes. That may be less
	// than the installed memory. Nil: the value from Probe.
	Memory func() int64
	// Assembles checks whether the system installed on a disk can assemble a software RAID.
	// An error is seed.ErrNoAssembly, seed.ErrNoRoot or seed.ErrIgnition if the image is at
	// fault, and any other if the check itself failed. Nil: no check.
	Assembles func(ctx context.Context, disk agentapi.Disk) error
	// Kernels starts live systems. Nil: orders to start one fail.
	Kernels Kernels

	// SetTime sets system clock and RTC. Nil: the clock is not set.
	SetTime func(time.Time) error
	// Dial connects to the manager and to the image server. Nil: net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log prints one line on the console. It never gets a secret. Nil: no output.
	Log func(format string, args ...any)
	// Sleep waits, and returns early with the context's cause. Nil: a timer.
	Sleep func(ctx context.Context, d time.Duration) error
	// CallTimeout bounds one call to the manager. Zero: 30 s.
	CallTimeout time.Duration
	// ImageStall bounds the silence of the image server before a reconnect. Zero: 1 minute.
	ImageStall time.Duration
	// MinBackoff and MaxBackoff bound the jittered delay between failed calls. Zero: 1 s
	// and 30 s.
	MinBackoff, MaxBackoff time.Duration
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case len(c.Servers) == 0 || len(c.Pins) == 0 || c.Token == "":
		return c, errors.New("agent: servers, pins and token are required")
	case c.Identity == nil || c.Probe == nil || c.Disks == nil || c.Seeder == nil:
		return c, errors.New("agent: identity, probe, disks and seeder are required")
	}
	c.discover = agentapi.IsForUnknownServer(c.Token)
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

func orDefault(d, fallback time.Duration) time.Duration {
	if d <= 0 {
		return fallback
	}
	return d
}

// Failure is the error of an order as reported to the manager: a stable reason and a
// message without secrets.
type Failure struct {
	Reason  string
	Message string
	Err     error
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

func (f *Failure) Unwrap() error { return f.Err }

// failure gives an error a reason. If the error wraps a Failure, it keeps that reason.
func failure(reason string, err error) *Failure {
	if known, ok := errors.AsType[*Failure](err); ok {
		reason = known.Reason
	}
	return &Failure{Reason: reason, Message: err.Error(), Err: err}
}

func failuref(reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reasons of a Failure, in addition to those of package agentapi, which do not count against
// the host.
const (
	// ReasonDiskAmbiguous: Several disks match one reference, or two paths lead to one disk.
	// +ingot:category=Inventory
	// +ingot:remedy=Set rootDeviceHints that match one disk, then set the annotation inspect when
	// the host is free.
	ReasonDiskAmbiguous = "DiskAmbiguous"
	// ReasonDiskOwnedByOther: Disks belong to instances that were not released, or have a damaged
	// marker.
	// +ingot:category=Installation
	// +ingot:remedy=If the data can be destroyed, set the annotation approve to the time and the
	// names in the message. Then set clear-quarantine if the host is quarantined.
	ReasonDiskOwnedByOther = "DiskOwnedByOther"
	// ReasonDiskFailed: A disk could not be read or written, or returned other data than was
	// written, or an earlier erasure left it locked.
	// +ingot:category=Installation
	// +ingot:remedy=Disconnect the server from power and try again, or unlock the disk. Otherwise
	// replace the disk.
	ReasonDiskFailed = "DiskFailed"
	// ReasonTransferFailed: The agent had no connection to the boot server that lasted for 10
	// minutes.
	// +ingot:category=Installation
	// +ingot:remedy=Check that ingot-boot runs. If other hosts install, check the NIC and the
	// cable of this host.
	ReasonTransferFailed = "TransferFailed"
	// ReasonSeedFailed: The agent could not write the first-boot data into the installed system,
	// and removed the image.
	// +ingot:category=Installation
	// +ingot:remedy=Read the message, and replace the disk.
	ReasonSeedFailed = "SeedFailed"
	// ReasonLiveFailed: The server could not load the live system into memory or start it.
	// +ingot:category=Installation
	// +ingot:remedy=Read the message, and check that the server has enough memory.
	ReasonLiveFailed  = "LiveSystemFailed"
	ReasonCleanFailed = "CleanFailed"
	// ReasonOrderNotUnderstood: The agent does not know the requested work, because it is of
	// another release than the manager.
	// +ingot:category=Internal
	// +ingot:remedy=Update the boot media of the host and the boot servers to the release of the
	// manager.
	ReasonOrderNotUnderstood = "OrderNotUnderstood"
)

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Step is the next thing to do to a host: a closed set. The host controller
// executes exactly one step a reconcile and saves the result in one place.
type Step interface{ step() }

// Idle: nothing to do until something changes or the next poll.
type Idle struct{}

// Wait: nothing to do before Until.
type Wait struct {
	Until time.Time
}

// SaveLedger writes the ledger as it is given, by optimistic lock on the version that was
// decided on, and removes the annotations and labels named.
type SaveLedger struct {
	Ledger            Ledger
	RemoveAnnotations []string
	RemoveLabels      []string
}

// RecordAddress records an address for the boot NIC, before any power-on.
type RecordAddress struct{}

// PowerOn switches the host on without a boot override: a person wants it on.
type PowerOn struct{}

// PowerOff switches the host off.
type PowerOff struct {
	// Graceful asks the operating system; otherwise the power is cut.
	Graceful bool
}

// Restart reboots the host because a person asked for it by annotation. That it was carried
// out is saved first (TakeCommand).
type Restart struct {
	Graceful bool
}

// BootAgent sets the one-time network boot and switches the host on. The host is
// confirmed off and its order is in the ledger.
type BootAgent struct{}

// Forget lets the IngotHost object go: its finalizer is removed.
type Forget struct{}

func (Idle) step()          {}
func (Wait) step()          {}
func (SaveLedger) step()    {}
func (RecordAddress) step() {}
func (PowerOn) step()       {}
func (PowerOff) step()      {}
func (Restart) step()       {}
func (BootAgent) step()     {}
func (Forget) step()        {}

// Ledger is what must never be forgotten of a host (I3).
type Ledger struct {
	Claim  *infrav1.HostClaim
	Record *infrav1.HostRecord
	Order  *infrav1.HostOrder
	// Commands that were carried out, or refused (I24).
	Commands []infrav1.HostCommand
}

// LedgerOf copies the ledger of a host, so that it can be changed.
func LedgerOf(host *infrav1.IngotHost) Ledger {
	return Ledger{
		Claim:    host.Spec.Claim.DeepCopy(),
		Record:   host.Spec.Record.DeepCopy(),
		Order:    host.Spec.Order.DeepCopy(),
		Commands: copyCommands(host.Spec.Commands),
	}
}

func copyCommands(commands []infrav1.HostCommand) []infrav1.HostCommand {
	out := slices.Clone(commands)
	for i := range out {
		out[i].InstanceIDs = slices.Clone(out[i].InstanceIDs)
	}
	return out
}

// Apply writes the ledger into the host.
func (l Ledger) Apply(host *infrav1.IngotHost) {
	host.Spec.Claim, host.Spec.Record, host.Spec.Order, host.Spec.Commands = l.Claim, l.Record, l.Order, l.Commands
}

// BMCProblem is why the BMC could not be asked; empty when it could.
type BMCProblem string

// The problems; each has its own condition reason and remedy.
const (
	BMCOK           BMCProblem = ""
	BMCUnreachable  BMCProblem = "Unreachable"
	BMCTimeout      BMCProblem = "Timeout"
	BMCBusy         BMCProblem = "Busy"
	BMCRateLimited  BMCProblem = "RateLimited"
	BMCSlow         BMCProblem = "Slow"
	BMCUnauthorized BMCProblem = "Unauthorized"
	// BMCPasswordChange: it takes the password, and wants another before anything else.
	BMCPasswordChange     BMCProblem = "PasswordChange"
	BMCCertificateInvalid BMCProblem = "CertificateInvalid"
	BMCCertificateChanged BMCProblem = "CertificateChanged"
	BMCCredentialsMissing BMCProblem = "CredentialsMissing"
	BMCCAMissing          BMCProblem = "CAMissing"
	BMCUnsupported        BMCProblem = "Unsupported"
	// BMCAddressNotAllowed: --bmc-sources does not allow its address; it is not spoken to.
	BMCAddressNotAllowed BMCProblem = "AddressNotAllowed"
	BMCError             BMCProblem = "Error"
	// BMCNamespaceTerminating: the certificate of its first use cannot be recorded any more.
	BMCNamespaceTerminating BMCProblem = "NamespaceTerminating"
	// BMCDisobeys: it answers, and does not switch the server as it is ordered.
	BMCDisobeys BMCProblem = "Disobeys"
)

// MachineState is what is known of the IngotMachine that the claim names.
type MachineState string

// The machine states. Unknown (the cache may be stale, the API does not answer)
// never leads to an action.
const (
	MachineUnknown MachineState = ""
	MachineExists  MachineState = "Exists"
	// MachineMissing is the result of an uncached read.
	MachineMissing MachineState = "Missing"
)

// Observation is what was seen of a host just now. Zero values mean "not known"
// and never lead to an action that cannot be taken back.
type Observation struct {
	// Now is the clock; NewID a fresh random UUID, used if the step mints an order.
	Now   time.Time
	NewID string

	// BMC says whether the BMC could be asked, and BMCMessage how it failed, for
	// people; RetryAt when the next try is due (backoff, decided by the caller).
	BMC        BMCProblem
	BMCMessage string
	RetryAt    time.Time
	// Failures is how many tries in a row have failed, since FailingSince.
	Failures     int
	FailingSince time.Time
	// Health as the BMC told it, and the parts that ail, for people: HealthDetail is
	// empty when it names none, or was not asked.
	Health       Health
	HealthDetail string
	// Power as the BMC told it just now; Unknown or empty: not known.
	Power infrav1.PowerState
	// LastReset is when Ingot last switched the host, on or off, softly or not;
	// SoftOffAt when the operating system was asked to shut down. Zero: never, or
	// forgotten. SoftOffAt is also zero once the host was seen off, was switched on after
	// it, or need not go off any more (Decision.ShutsDown): a wish of last week must not
	// cut the power today. A request that the BMC refused was not made.
	LastReset time.Time
	SoftOffAt time.Time
	// AskRefused: the BMC has refused to ask the operating system to shut down, at every try
	// for as long as Policy.SoftPowerOff.
	AskRefused bool
	// BootTakenAt is since when the BMC takes the orders to boot the agent of the present
	// order. Zero: it has taken none, or not the last one, so that it is the BMC's doing that
	// the host is off; or it is forgotten.
	BootTakenAt time.Time
	// OffProven: that the host is off is more than the BMC's word; see OffProof.
	OffProven bool
	// SeenOn: the BMC has said on since the host is to be off for that; see OffProof.
	SeenOn bool
	// OffUnsure: a live system was started, and the BMC has not said off for as long as
	// Policy.ResetInterval since.
	OffUnsure bool

	// FactsMissing: there is no IngotHardware with what an inspection finds.
	FactsMissing bool
	// FactsAwaitedUntil is how long the facts of a host may still be to come that was restored
	// from a backup, object by object. Zero: they are not awaited.
	FactsAwaitedUntil time.Time
	// StorageWithoutDriver are the storage controllers of which the agent saw no disk when it
	// last ran.
	StorageWithoutDriver []infrav1.HardwareController

	// LastContact is when the agent of the present order last spoke. Zero: never, or
	// forgotten; see Decision.RecordContact.
	LastContact time.Time
	// ListeningSince is when the caller began to look at hosts: before that agents may have
	// had nobody to speak to, or their times are by a clock that was set since. Zero: not
	// known, and so not counted.
	ListeningSince time.Time
	// LedgerSince is since when managers have watched the ledger without a gap: what is older
	// may come from a backup. Zero: not known, and so not counted.
	LedgerSince time.Time
	// NodeHeard is when the kubelet of the Node with the claim's provider ID last reported;
	// see NodeMatters. Zero: never, or not looked for.
	NodeHeard time.Time
	// UnpausedAt is when the host's last pause ended, or when it was first seen without one.
	// Zero: not known, and so not counted.
	UnpausedAt time.Time

	// SilentPeers is how many other hosts on the IngotNetwork wait for their agents while
	// none is heard; see the function of that name. It matters once SilenceDue.
	SilentPeers int

	// DuplicateOf names the other hosts that are the same server (I8), for people who may
	// read this one; see ListHosts.
	DuplicateOf string
	// WrongServer says that the BMC manages another server than the one inspected;
	// see the function of that name.
	WrongServer string
	// BootMACMissing: the BMC lists NICs, and the boot MAC address is not among
	// them (I8); KnownMACs are those it lists, for people.
	BootMACMissing bool
	KnownMACs      []string
	// BootServerUnknown: the manager does not know where BMCs and firmware find a boot
	// server, which boots other than by PXE need.
	BootServerUnknown bool
	// NetworkMissing: the IngotNetwork does not exist; AddressRecorded: an address
	// is recorded for the boot NIC on that network.
	NetworkMissing  bool
	AddressRecorded bool
	// NetworkRefused says why the IngotNetwork does not let the host boot on it, and what to
	// do; empty: it does. RefusedReason is its reason.
	NetworkRefused, RefusedReason string
	// AddressProblem says why none could be recorded. AddressReason is its reason, and
	// the remedy then stands in it; empty: the range is exhausted.
	AddressProblem string
	AddressReason  string

	// Firmware is what the BMC told of settings and firmware; nil: not read, or
	// forgotten, as the caller must at each switch and each write of settings. Update
	// is what it tells now of the update under way.
	Firmware *FirmwareReading
	Update   UpdateTask
	// FirmwareRetryAt is when settings and firmware are read and written again, after a
	// call about them has failed with FirmwareProblem, for people, though the BMC answers
	// otherwise (backoff, decided by the caller). Zero: none has.
	FirmwareRetryAt time.Time
	FirmwareProblem string
	// FirmwareSlow: it is no failure, the BMC has only told a part of it so far.
	FirmwareSlow bool

	// Machine that the claim names. MachineDeleting: it, or the Machine that owns it, is
	// being deleted, which cannot be called off; to be known of hosts with a force-release.
	Machine         MachineState
	MachineDeleting bool
	// Deleting: the IngotHost object has a deletion timestamp.
	Deleting bool
}

// Policy holds the durations and bounds by which Next decides.
type Policy struct {
	// SoftPowerOff is how long an operating system may take to shut down, and ShutdownPoll
	// how often the power state is read meanwhile.
	SoftPowerOff, ShutdownPoll time.Duration
	// AgentDeadline is how long an agent may stay silent.
	AgentDeadline time.Duration
	// ResetInterval is the least time between two switches of one host.
	ResetInterval time.Duration
	// RetryMax bounds the waits that grow between attempts; agents, which wait less than
	// that, are given as much to be heard after the manager's start.
	RetryMax time.Duration
	// MaxAttempts is after how many failures in a row a host is quarantined.
	MaxAttempts int32

	// ReadingAge is how old a reading of settings and firmware may be when all is as
	// wanted; DriftAge when it is not.
	ReadingAge, DriftAge time.Duration
	// UpdatePoll is how often the task of an update is read, and UpdateRead how often
	// the versions are when it tells nothing.
	UpdatePoll, UpdateRead time.Duration
	// UpdateSilence is how long an update of which the BMC tells nothing may be at
	// work; UpdateDeadline one that it says is running.
	UpdateSilence, UpdateDeadline time.Duration
}

// DefaultPolicy holds the defaults that the manager's flags have.
func DefaultPolicy() Policy {
	return Policy{
		SoftPowerOff:  120 * time.Second,
		ShutdownPoll:  5 * time.Second,
		AgentDeadline: 15 * time.Minute,
		ResetInterval: 30 * time.Second,
		RetryMax:      5 * time.Minute,
		MaxAttempts:   3,

		ReadingAge:     24 * time.Hour,
		DriftAge:       time.Hour,
		UpdatePoll:     15 * time.Second,
		UpdateRead:     5 * time.Minute,
		UpdateSilence:  20 * time.Minute,
		UpdateDeadline: time.Hour,
	}
}

// Decision is what Next says: the step, and what people are told.
type Decision struct {
	Step Step
	// Rule names the rule that decided, for logs and tests.
	Rule string
	// Phase sums up the host's life for people.
	Phase infrav1.IngotHostPhase
	// Reason and Message go into the Ready condition and, when Event is set, into
	// an event: what happened, what Ingot does next and when, what a person can do.
	Reason  string
	Message string
	// Event is "", "Normal" or "Warning". For Idle and Wait it is meant for the
	// moment when Reason becomes the reason of the Ready condition, not for every poll.
	Event string
	// RecordContact asks the caller to save Observation.Now as the time of the
	// agent's last contact: it was forgotten (status lost, or a crash between a boot
	// and its record), and the deadline starts again. Without it a running install
	// would be cut off because a status was emptied (I2).
	RecordContact bool
	// ShutsDown: the host is to go off, its system asked first. After any other decision
	// about a host that is on, the caller forgets when it was asked, and what was refused.
	ShutsDown bool
	// Aside: the step is beside the host's life. The event is to be told, and the
	// conditions are to be left as they are.
	Aside bool
	// Refuses: the commands whose annotations the step removes are not carried out.
	Refuses bool
}

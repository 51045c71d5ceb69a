// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Step is the next action on a host. The set is closed. The host controller executes one step
// per reconcile and saves the result in one place.
type Step interface{ step() }

// Idle does nothing until something changes or the next poll.
type Idle struct{}

// Wait does nothing before Until.
type Wait struct {
	Until time.Time
}

// SaveLedger writes the ledger with an optimistic lock on the version that was decided on, and
// removes the annotations and labels.
type SaveLedger struct {
	Ledger            Ledger
	RemoveAnnotations []string
	RemoveLabels      []string
}

// RecordAddress assigns an address to the boot NIC before a power-on.
type RecordAddress struct{}

// PowerOn powers the host on without a boot override.
type PowerOn struct{}

// PowerOff powers the host off.
type PowerOff struct {
	// Graceful asks the operating system to shut down. False cuts the power.
	Graceful bool
}

// Restart reboots the host on an operator's command. The caller first saves that the command
// was carried out (TakeCommand).
type Restart struct {
	Graceful bool
}

// BootAgent sets the one-time boot of the agent and powers the host on. The host is confirmed
// off and its order is in the ledger.
type BootAgent struct{}

// RemoveFinalizer removes the finalizer of the IngotHost.
type RemoveFinalizer struct{}

func (Idle) step()            {}
func (Wait) step()            {}
func (SaveLedger) step()      {}
func (RecordAddress) step()   {}
func (PowerOn) step()         {}
func (PowerOff) step()        {}
func (Restart) step()         {}
func (BootAgent) step()       {}
func (RemoveFinalizer) step() {}

// Ledger is the persistent state of a host (I3).
type Ledger struct {
	Claim  *infrav1.HostClaim
	Record *infrav1.HostRecord
	Order  *infrav1.HostOrder
	// Commands that were carried out or refused (I24).
	Commands []infrav1.HostCommand
}

// LedgerOf returns a deep copy of the ledger of a host.
func LedgerOf(host *infrav1.IngotHost) Ledger {
	return Ledger{host.Spec.Claim, host.Spec.Record, host.Spec.Order, host.Spec.Commands}.copy()
}

func (l Ledger) copy() Ledger {
	return Ledger{l.Claim.DeepCopy(), l.Record.DeepCopy(), l.Order.DeepCopy(), copyCommands(l.Commands)}
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

// BMCProblem is why the BMC cannot be used. Empty: it can.
type BMCProblem string

// The problems. Each has its own condition reason and remedy.
const (
	BMCOK           BMCProblem = ""
	BMCUnreachable  BMCProblem = "Unreachable"
	BMCTimeout      BMCProblem = "Timeout"
	BMCBusy         BMCProblem = "Busy"
	BMCRateLimited  BMCProblem = "RateLimited"
	BMCSlow         BMCProblem = "Slow"
	BMCUnauthorized BMCProblem = "Unauthorized"
	// BMCPasswordChange: it accepts the password, but requires a new one first.
	BMCPasswordChange     BMCProblem = "PasswordChange"
	BMCCertificateInvalid BMCProblem = "CertificateInvalid"
	BMCCertificateChanged BMCProblem = "CertificateChanged"
	BMCCredentialsMissing BMCProblem = "CredentialsMissing"
	BMCCAMissing          BMCProblem = "CAMissing"
	BMCUnsupported        BMCProblem = "Unsupported"
	// BMCAddressNotAllowed: --bmc-sources does not allow its address, so Ingot does not connect.
	BMCAddressNotAllowed BMCProblem = "AddressNotAllowed"
	BMCError             BMCProblem = "Error"
	// BMCNamespaceTerminating: Ingot cannot record the certificate of the first use.
	BMCNamespaceTerminating BMCProblem = "NamespaceTerminating"
	// BMCIgnoresPower: it answers, but does not carry out power actions.
	BMCIgnoresPower BMCProblem = "Disobeys"
)

// MachineState is whether the IngotMachine of the claim exists.
type MachineState string

// The machine states. Unknown (the cache may be stale, or the API does not answer) never leads
// to an action.
const (
	MachineUnknown MachineState = ""
	MachineExists  MachineState = "Exists"
	// MachineMissing needs an uncached read.
	MachineMissing MachineState = "Missing"
)

// Observation is the present state of a host. Zero values mean "not known" and never lead to
// an irreversible action.
type Observation struct {
	// Now is the present time. NewID is a new random UUID for an order that the step may write.
	Now   time.Time
	NewID string

	// BMC is why the BMC cannot be used, and BMCMessage how it failed. RetryAt is when the
	// caller's backoff allows the next try.
	BMC        BMCProblem
	BMCMessage string
	RetryAt    time.Time
	// FailingSince is when the tries began to fail. Zero: they do not, or it is not known.
	FailingSince time.Time
	// Health as the BMC reports it. HealthDetail names the faulty parts; empty: the BMC names
	// none, or was not asked.
	Health       Health
	HealthDetail string
	// Power as the BMC reports it now. Unknown or empty: not known.
	Power infrav1.PowerState
	// LastReset is the time of Ingot's last power action. SoftOffAt is when Ingot asked the
	// system to shut down, unless the BMC refused that. Zero: never, or forgotten. The caller
	// clears SoftOffAt once the host was seen off, was powered on later, or need not go off
	// any more (Decision.ShutsDown): an old request must not cut the power today.
	LastReset time.Time
	SoftOffAt time.Time
	// ShutdownRefused: the BMC refused every shutdown request for as long as Policy.SoftPowerOff.
	ShutdownRefused bool
	// BootAcceptedAt is since when the BMC accepts the boots of the present order. Zero: it
	// refused the last one, so that the host is off because of the BMC; or it is forgotten.
	BootAcceptedAt time.Time
	// OffProven: there is proof that the host is off; see OffProof.
	OffProven bool
	// SeenOn: the BMC has reported on since the host must be off; see OffProof.
	SeenOn bool
	// OffUnconfirmed: a live system was started, and the BMC has not yet reported off for as long
	// as Policy.ResetInterval.
	OffUnconfirmed bool

	// FactsMissing: no IngotHardware has the result of an inspection.
	FactsMissing bool
	// FactsAwaitedUntil is until when a restore from a backup may still bring the IngotHardware.
	// Zero: it is not expected.
	FactsAwaitedUntil time.Time
	// StorageWithoutDriver has the storage controllers behind which the agent last saw no disk.
	StorageWithoutDriver []infrav1.HardwareController

	// LastContact is the last message of the present order's agent. Zero: none, or forgotten;
	// see Decision.RecordContact.
	LastContact time.Time
	// ListeningSince is when the manager began to reconcile hosts and accept agents. Zero: not
	// known, and ignored.
	ListeningSince time.Time
	// LedgerSince is since when managers have watched the ledger without a gap. Older state may
	// come from a backup. Zero: not known, and ignored.
	LedgerSince time.Time
	// NodeHeard is the last report of the kubelet whose Node has the claim's provider ID; see
	// NeedsNode. Zero: none, or not read.
	NodeHeard time.Time
	// UnpausedAt is when the host's last pause ended, or when it was first seen without one.
	// Zero: not known, and ignored.
	UnpausedAt time.Time

	// CountSilentPeers is the result of the function of that name. It matters once IsAgentSilent.
	SilentPeers int

	// DuplicateOf lists the other hosts that are the same server (I8), as inventory.ListHosts
	// does for readers of this one.
	DuplicateOf string
	// WrongServer is how the BMC's server differs from the inspected one; see
	// inventory.WrongServer.
	WrongServer string
	// BootMACMissing: the BMC lists NICs without the boot MAC address (I8). KnownMACs are
	// those it lists.
	BootMACMissing bool
	KnownMACs      []string
	// BootServerUnknown: the manager has no URL of a boot server, which boot methods other
	// than PXE need.
	BootServerUnknown bool
	// NetworkMissing: the IngotNetwork does not exist. AddressRecorded: the boot NIC has an
	// address on that network.
	NetworkMissing  bool
	AddressRecorded bool
	// NetworkRefused is a message about why the host may not boot on the IngotNetwork, with
	// its RefusedReason. Empty: it may.
	NetworkRefused, RefusedReason string
	// AddressProblem is why the boot NIC gets no address. If AddressReason is set, the problem
	// includes the remedy. If it is empty, the range is exhausted.
	AddressProblem string
	AddressReason  string

	// Firmware is the reading of settings and firmware. Nil: not read, or dropped, as the
	// caller must at each power action and each write of settings. Update is the present
	// state of a running update.
	Firmware *FirmwareReading
	Update   UpdateTask
	// FirmwareRetryAt is when the caller's backoff allows calls about settings and firmware
	// again, after one failed with FirmwareProblem on a BMC that otherwise answers. Zero:
	// none has failed.
	FirmwareRetryAt time.Time
	FirmwareProblem string
	// FirmwareSlow: the problem is no failure, only an unfinished reading.
	FirmwareSlow bool

	// Machine is the state of the claim's machine. MachineDeleting: it, or the Machine that
	// owns it, is being deleted, which cannot be undone. It matters for force-release.
	Machine         MachineState
	MachineDeleting bool
	// Deleting: the IngotHost object has a deletion timestamp.
	Deleting bool
}

// Policy has the durations and limits by which Next decides.
type Policy struct {
	// SoftPowerOff is how long an operating system may take to shut down. ShutdownPoll is the
	// interval of reads of the power state until then.
	SoftPowerOff, ShutdownPoll time.Duration
	// AgentDeadline is how long an agent may stay silent.
	AgentDeadline time.Duration
	// ResetInterval is the least time between two power actions on one host.
	ResetInterval time.Duration
	// RetryMax limits the growing waits between attempts. Agents, whose waits are shorter, get
	// this time to report after a start of the manager.
	RetryMax time.Duration
	// MaxAttempts is how many failures in a row lead to quarantine.
	MaxAttempts int32

	// ReadingAge is how old a reading of settings and firmware may be if it matches the spec;
	// DriftAge, if it does not.
	ReadingAge, DriftAge time.Duration
	// UpdatePoll is the interval of reads of an update's task; UpdateRead, of the versions if
	// the task reports nothing.
	UpdatePoll, UpdateRead time.Duration
	// UpdateSilence is how long an update without progress reports may run; UpdateDeadline,
	// one that the BMC reports as running.
	UpdateSilence, UpdateDeadline time.Duration
}

// DefaultPolicy returns the defaults of the manager's flags.
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

// Decision is the result of Next: the step and its explanation.
type Decision struct {
	Step Step
	// Rule names the rule that decided, for logs and tests.
	Rule string
	// Phase sums up the ledger.
	Phase infrav1.IngotHostPhase
	// Reason and Message go into the Ready condition and, if Event is set, into an event.
	Reason  string
	Message string
	// Detail is the complete text of the BMC or the agent that Message shortens, for the log.
	Detail string
	// Event is "", "Normal" or "Warning". For Idle and Wait the caller emits it when Reason
	// becomes the reason of the Ready condition, not at each poll.
	Event string
	// RecordContact asks the caller to save Observation.Now as the agent's last contact, which
	// was lost with the status or in a crash after the boot. The deadline starts again, so
	// that a lost status does not end a running install (I2).
	RecordContact bool
	// ShutsDown: the host is to go off after a shutdown of its system. After any other
	// decision about a host that is on, the caller clears the times of shutdown requests.
	ShutsDown bool
	// KeepsConditions: the caller emits the event, but leaves the conditions as they are.
	KeepsConditions bool
	// RefusesCommands: the step removes the annotations of commands without carrying them out.
	RefusesCommands bool
}

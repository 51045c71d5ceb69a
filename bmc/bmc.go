// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// PowerState of a server as its BMC tells it.
type PowerState string

// The power states. On is everything that has power, on its way on or off too (DSP0268,
// Resource.PowerState: PoweringOn, PoweringOff, Paused): a shutdown may hang there, and
// the deadline that ends it must go on (I7, decision 0261). Unknown is what a BMC could
// not tell.
const (
	PowerOn      PowerState = "On"
	PowerOff     PowerState = "Off"
	PowerUnknown PowerState = "Unknown"
)

// PowerAction changes a server's power state.
type PowerAction string

// The power actions; the driver falls back where a BMC lacks one.
const (
	// ActionOn switches on.
	ActionOn PowerAction = "On"
	// ActionGracefulOff asks the operating system to shut down; it may not.
	ActionGracefulOff PowerAction = "GracefulOff"
	// ActionForceOff cuts the power.
	ActionForceOff PowerAction = "ForceOff"
	// ActionGracefulRestart asks the operating system to restart; it may not.
	ActionGracefulRestart PowerAction = "GracefulRestart"
	// ActionForceRestart resets.
	ActionForceRestart PowerAction = "ForceRestart"
	// ActionNMI interrupts the operating system, which may dump its memory; the server
	// stays on.
	ActionNMI PowerAction = "NMI"
)

// Power reads and changes the power state. A call that returns ErrUnknownOutcome
// may or may not have taken effect: read the state again, never repeat it (I17).
type Power interface {
	PowerState(ctx context.Context) (PowerState, error)
	SetPower(ctx context.Context, action PowerAction) error
}

// BootTarget is a device to boot from.
type BootTarget string

// The boot targets.
const (
	BootPXE  BootTarget = "PXE"
	BootDisk BootTarget = "Disk"
	// BootHTTP is UEFI HTTP boot of BootOverride.HTTPBootURI.
	BootHTTP BootTarget = "HTTP"
	// BootCD is a CD drive, a virtual one before a real one.
	BootCD BootTarget = "CD"
	// BootSetup is the firmware's setup.
	BootSetup BootTarget = "Setup"
	// BootNone: no override, the firmware's own order.
	BootNone BootTarget = "None"
)

// BootMode of the firmware for an overridden boot.
type BootMode string

// The boot modes.
const (
	ModeUEFI BootMode = "UEFI"
	ModeBIOS BootMode = "BIOS"
)

// BootOverride says what the next boot, or every boot, starts from.
type BootOverride struct {
	Target BootTarget
	// Mode is empty to leave it as it is.
	Mode BootMode
	// Persistent holds until changed; otherwise it holds for one boot.
	Persistent bool
	// HTTPBootURI is what BootHTTP loads; empty: what DHCP says.
	HTTPBootURI string
}

// BootDevice reads and sets the boot override.
type BootDevice interface {
	BootOverride(ctx context.Context) (BootOverride, error)
	// SetBootOverride sets and reads back; ErrNotApplied when the BMC accepted the
	// call and shows another value, ErrOverrideStays when it shows one boot as every
	// boot and all else as asked. Where BootOverride is ErrNotSupported, nothing is
	// read back.
	SetBootOverride(ctx context.Context, override BootOverride) error
}

// Identity names the server behind a BMC.
type Identity struct {
	// SystemID is the BMC's own name of the system: for Redfish its @odata.id.
	SystemID     string
	UUID         string
	Serial       string
	Manufacturer string
	Model        string
	// BMCFirmware and BMCUUID identify the manager.
	BMCFirmware string
	BMCUUID     string
}

// Inventory is what a BMC knows of the hardware. Lists are nil where the BMC
// cannot tell, and empty where it told that there are none.
type Inventory struct {
	Identity Identity
	// MACs of the network interfaces, lower case with colons, sorted.
	MACs []string
	// Processors counts physical cores; MemoryBytes is 0 when unknown.
	Cores       int32
	MemoryBytes int64
}

// Inventorier reads what the BMC knows; it writes nothing (I8).
type Inventorier interface {
	Identity(ctx context.Context) (Identity, error)
	Inventory(ctx context.Context) (Inventory, error)
}

// Conn is an open session with one BMC. It is not safe for concurrent use.
type Conn interface {
	Power
	Pulse
	BootDevice
	Inventorier
	// What not every BMC can answers ErrNotSupported; see Unsupported.
	Media
	Settings
	Firmware
	Health
	EventLog
	Console
	Accounts
	SecureBoot
	Resetter
	Indicator
	Events
	// Close ends the session at the BMC, also when the context of its calls has ended.
	// After an error it may be open still: another Close tries again. See Lingerer.
	Close(ctx context.Context) error
}

// Dialer opens a session. It is a driver's only entry.
type Dialer func(ctx context.Context, target Target) (Conn, error)

// Target says how to reach and trust one BMC.
type Target struct {
	// Address as in IngotHost.spec.bmc.address.
	Address  string
	Username string
	Password Password
	// CABundle holds PEM certificates; empty: the system's.
	CABundle []byte
	// Fingerprint, "sha256:" and 64 hex digits in lower case, is that of the one
	// certificate to trust, whoever signed it; see CertificateFingerprint. Empty:
	// the certificate is verified. A driver without TLS refuses such a target.
	Fingerprint string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// Mark is what the pool gives the sessions, see Mark.
	Mark Mark
	// Connecting is called before each connection with the host, as the address has it,
	// and the IP address and port that it leads to. Its error refuses the connection. It
	// must be safe for concurrent use. Nil: every connection is made.
	Connecting func(host string, to netip.AddrPort) error
}

// Password is text that prints as "***".
type Password string

// String hides the password.
func (Password) String() string { return "***" }

// GoString hides the password from %#v.
func (Password) GoString() string { return "***" }

// Format hides the password from every verb.
func (Password) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }

// Reveal returns the password, for the one place that sends it.
func (p Password) Reveal() string { return string(p) }

// Sentinels by which callers decide. Drivers wrap them with what was attempted.
var (
	// ErrNotSupported: this BMC, or this driver, cannot do it.
	ErrNotSupported = errors.New("not supported by this BMC")
	// ErrUnauthorized: the BMC refused the credentials (401, 403).
	ErrUnauthorized = errors.New("BMC refused the credentials")
	// ErrPasswordChange: the BMC takes the credentials, and wants their password changed
	// before anything else, as with a factory's (Redfish, PasswordChangeRequired).
	ErrPasswordChange = errors.New("BMC wants its password changed first")
	// ErrCertificate: the BMC's certificate is not trusted.
	ErrCertificate = errors.New("BMC certificate is not trusted")
	// ErrUnreachable: no connection came about.
	ErrUnreachable = errors.New("BMC is unreachable")
	// ErrTimeout: a read was not answered by its deadline.
	ErrTimeout = errors.New("BMC did not answer in time")
	// ErrUnknownOutcome: a write was not answered, or the BMC broke down over it; it may have
	// taken effect (I17).
	ErrUnknownOutcome = errors.New("outcome unknown: the write may have taken effect")
	// ErrUnsent: a write failed before anything of it was sent, though what was given with
	// it may have been read. It is beside another error, which says why.
	ErrUnsent = errors.New("nothing was sent")
	// ErrBusy: the BMC asks for patience (503, sessions full, ErrRateLimited).
	ErrBusy = errors.New("BMC is busy")
	// ErrRateLimited: the BMC has been asked too often (429). It is an ErrBusy too.
	ErrRateLimited = errors.New("BMC limits how often it may be asked")
	// ErrUnfinished: a read of many answers ran out of time when some were there. Asked
	// again, the same session goes on from them. It is an ErrBusy too.
	ErrUnfinished error = unfinished{}
	// ErrNotApplied: the BMC accepted a write and shows another value.
	ErrNotApplied = errors.New("BMC did not apply the setting")
	// ErrOverrideStays: the BMC took a boot override for one boot, and shows it for every
	// boot. The next boot starts as asked. It is an ErrNotApplied too.
	ErrOverrideStays error = overrideStays{}
	// ErrPasswordRefused: the BMC takes passwords, and not this one: too short, too long,
	// used before, or whatever else its policy has against it. Nothing has changed; it is
	// an ErrNotApplied too.
	ErrPasswordRefused error = passwordRefused{}
	// ErrProtocol: the BMC's answer makes no sense.
	ErrProtocol = errors.New("BMC answer not understood")
	// ErrAddress: the address is not one that this driver can use.
	ErrAddress = errors.New("BMC address is not usable")
)

type unfinished struct{}

// Error implements error.
func (unfinished) Error() string { return "BMC is slow, and has not told all yet" }

// Is makes errors.Is(err, ErrBusy) true.
func (unfinished) Is(target error) bool { return target == ErrBusy }

type overrideStays struct{}

// Error implements error.
func (overrideStays) Error() string { return "BMC keeps the boot override for every boot" }

// Is makes errors.Is(err, ErrNotApplied) true.
func (overrideStays) Is(target error) bool { return target == ErrNotApplied }

type passwordRefused struct{}

// Error implements error.
func (passwordRefused) Error() string { return "BMC refuses the password" }

// Is makes errors.Is(err, ErrNotApplied) true.
func (passwordRefused) Is(target error) bool { return target == ErrNotApplied }

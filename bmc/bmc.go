// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// PowerState is the power state of a server as its BMC reports it.
type PowerState string

const (
	// PowerOn covers every server that has power, including PoweringOn, PoweringOff and
	// Paused (DSP0268, Resource.PowerState). A shutdown may hang in PoweringOff, and the
	// deadline that ends the shutdown must keep running (I7).
	PowerOn  PowerState = "On"
	PowerOff PowerState = "Off"
	// PowerUnknown means that the BMC cannot report the state.
	PowerUnknown PowerState = "Unknown"
)

// PowerAction changes a server's power state. The driver falls back to a similar action
// if the BMC lacks the requested one.
type PowerAction string

const (
	ActionOn PowerAction = "On"
	// ActionGracefulOff asks the operating system to shut down; it may ignore the request.
	ActionGracefulOff PowerAction = "GracefulOff"
	// ActionForceOff cuts the power.
	ActionForceOff PowerAction = "ForceOff"
	// ActionGracefulRestart asks the operating system to restart; it may ignore the request.
	ActionGracefulRestart PowerAction = "GracefulRestart"
	// ActionForceRestart resets the server.
	ActionForceRestart PowerAction = "ForceRestart"
	// ActionNMI interrupts the operating system, which may dump its memory; the server stays on.
	ActionNMI PowerAction = "NMI"
)

// Power reads and changes the power state. A call that returns ErrUnknownOutcome may have
// taken effect: read the state again and never repeat the call before that (I17).
type Power interface {
	PowerState(ctx context.Context) (PowerState, error)
	SetPower(ctx context.Context, action PowerAction) error
}

// BootTarget is a device to boot from.
type BootTarget string

const (
	BootPXE  BootTarget = "PXE"
	BootDisk BootTarget = "Disk"
	// BootHTTP is UEFI HTTP boot from BootOverride.HTTPBootURI.
	BootHTTP BootTarget = "HTTP"
	// BootCD is a CD drive; a virtual drive takes precedence over a physical one.
	BootCD BootTarget = "CD"
	// BootSetup enters the firmware setup.
	BootSetup BootTarget = "Setup"
	// BootNone means no override: the firmware uses its own boot order.
	BootNone BootTarget = "None"
)

// BootMode is the firmware mode of an overridden boot.
type BootMode string

const (
	ModeUEFI BootMode = "UEFI"
	ModeBIOS BootMode = "BIOS"
)

// BootOverride selects the device for the next boot, or for every boot.
type BootOverride struct {
	Target BootTarget
	// Mode is empty to keep the current mode.
	Mode BootMode
	// Persistent keeps the override until it is changed; otherwise it lasts for one boot.
	Persistent bool
	// HTTPBootURI is the file that BootHTTP loads; empty: the address that DHCP provides.
	HTTPBootURI string
}

// BootDevice reads and sets the boot override.
type BootDevice interface {
	BootOverride(ctx context.Context) (BootOverride, error)
	// SetBootOverride sets the override and reads it back. It returns ErrNotApplied if the
	// BMC accepted the call and shows another value, and ErrOverrideStays if only the
	// duration differs. It reads nothing back if BootOverride is ErrNotSupported.
	SetBootOverride(ctx context.Context, override BootOverride) error
}

// Identity names the server behind a BMC.
type Identity struct {
	// SystemID is the BMC's own name of the system: the @odata.id in Redfish.
	SystemID     string
	UUID         string
	Serial       string
	Manufacturer string
	Model        string
	// BMCFirmware and BMCUUID identify the manager.
	BMCFirmware string
	BMCUUID     string
}

// Inventory is the hardware that a BMC reports. A list is nil if the BMC cannot report it,
// and empty if the BMC reports no items.
type Inventory struct {
	Identity Identity
	// MACs of the network interfaces, lower case with colons, sorted.
	MACs []string
	// Cores counts physical cores; 0 means unknown, as it does for MemoryBytes.
	Cores       int32
	MemoryBytes int64
}

// Inventorier reads the hardware inventory; it writes nothing (I8).
type Inventorier interface {
	Identity(ctx context.Context) (Identity, error)
	Inventory(ctx context.Context) (Inventory, error)
}

// Conn is an open session with one BMC. It is not safe for concurrent use.
type Conn interface {
	Power
	Poller
	BootDevice
	Inventorier
	// The methods of these interfaces return ErrNotSupported where the BMC lacks the
	// capability; see Unsupported.
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
	// Close ends the session at the BMC. ctx is independent of the context of earlier calls. After
	// an error the session may still be open, and Close may be called again; see Lingerer.
	Close(ctx context.Context) error
}

// Dialer opens a session. It is the only entry point of a driver.
type Dialer func(ctx context.Context, target Target) (Conn, error)

// Target describes how to reach and trust one BMC.
type Target struct {
	// Address has the form of IngotHost.spec.bmc.address.
	Address  string
	Username string
	Password Password
	// CABundle holds PEM certificates; empty: the system's authorities.
	CABundle []byte
	// Fingerprint pins one certificate, regardless of its issuer: "sha256:" and 64 lower-case hex
	// digits (see CertificateFingerprint). Empty: the certificate is verified. A driver
	// without TLS rejects a target with a fingerprint.
	Fingerprint string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
	// SessionLabel labels the sessions; the pool sets it.
	SessionLabel SessionLabel
	// Connecting is called before each connection with the host of the address, and with
	// the IP address and port that the connection leads to. An error rejects the
	// connection. It must be safe for concurrent use. Nil accepts every connection.
	Connecting func(host string, to netip.AddrPort) error
}

// Password is text that prints as "***".
type Password string

// String hides the password.
func (Password) String() string { return masked }

// GoString hides the password from %#v.
func (Password) GoString() string { return masked }

// Format hides the password from every verb.
func (Password) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(masked)) }

// Reveal returns the password, for the code that sends it.
func (p Password) Reveal() string { return string(p) }

// Sentinel errors that callers decide on. Drivers wrap them with the attempted action.
var (
	// ErrNotSupported: this BMC or this driver lacks the capability.
	ErrNotSupported = errors.New("not supported by this BMC")
	// ErrUnauthorized: the BMC refused the credentials (401, 403).
	ErrUnauthorized = errors.New("BMC refused the credentials")
	// ErrPasswordChange: the BMC accepts the credentials but requires a password change
	// before anything else, as with a factory password (Redfish, PasswordChangeRequired).
	ErrPasswordChange = errors.New("BMC requires a password change first")
	// ErrCertificate: the BMC's certificate is not trusted.
	ErrCertificate = errors.New("BMC certificate is not trusted")
	// ErrUnreachable: no connection could be opened.
	ErrUnreachable = errors.New("BMC is unreachable")
	// ErrTimeout: a read was not answered by its deadline.
	ErrTimeout = errors.New("BMC did not answer in time")
	// ErrUnknownOutcome: a write was not answered, or the BMC failed while handling it. The
	// write may have taken effect (I17).
	ErrUnknownOutcome = errors.New("outcome unknown: the write may have taken effect")
	// ErrUnsent: a write failed before any byte was sent, although its input may have been
	// read. It is joined with the error that states the cause.
	ErrUnsent = errors.New("nothing was sent")
	// ErrBusy: the BMC asks the caller to wait (503, no free session, ErrRateLimited).
	ErrBusy = errors.New("BMC is busy")
	// ErrRateLimited: the BMC received too many requests (429). It is also an ErrBusy.
	ErrRateLimited = errors.New("BMC limits the request rate")
	// ErrUnfinished: a read of many resources ran out of time after some of them. A retry
	// on the same session continues from there. It is also an ErrBusy.
	ErrUnfinished error = &impliedError{"BMC is slow and has not reported everything yet", ErrBusy}
	// ErrNotApplied: the BMC accepted a write and shows another value.
	ErrNotApplied = errors.New("BMC did not apply the setting")
	// ErrOverrideStays: the BMC accepted a boot override for one boot and shows it for
	// every boot. The next boot uses the requested device. It is also an ErrNotApplied.
	ErrOverrideStays error = &impliedError{"BMC keeps the boot override for every boot", ErrNotApplied}
	// ErrPasswordRefused: the BMC supports password changes but refuses this password: too
	// short, too long, used before, or against its policy. Nothing has changed. It is also
	// an ErrNotApplied.
	ErrPasswordRefused error = &impliedError{"BMC refuses the password", ErrNotApplied}
	// ErrProtocol: the BMC's answer is not valid.
	ErrProtocol = errors.New("BMC answer not understood")
	// ErrAddress: this driver cannot use the address.
	ErrAddress = errors.New("BMC address is not usable")
)

// impliedError is a sentinel that is also another sentinel.
type impliedError struct {
	text    string
	implied error
}

func (e *impliedError) Error() string { return e.text }

func (e *impliedError) Is(target error) bool { return target == e.implied }

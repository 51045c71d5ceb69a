// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Capability names one interface that a driver may offer. Every driver offers Power,
// BootDevice and Inventory.
type Capability string

const (
	CapPower      Capability = "Power"
	CapBootDevice Capability = "BootDevice"
	CapInventory  Capability = "Inventory"
	CapMedia      Capability = "Media"
	CapSettings   Capability = "Settings"
	// CapFirmware reads the versions. CapFirmwareFetch and CapFirmwarePush are the two ways
	// by which a BMC receives an image; a BMC may lack both.
	CapFirmware      Capability = "Firmware"
	CapFirmwareFetch Capability = "FirmwareFetch"
	CapFirmwarePush  Capability = "FirmwarePush"
	CapHealth        Capability = "Health"
	CapEventLog      Capability = "EventLog"
	CapConsole       Capability = "Console"
	CapAccounts      Capability = "Accounts"
	CapSecureBoot    Capability = "SecureBoot"
	CapReset         Capability = "Reset"
	CapIndicator     Capability = "Indicator"
	CapEvents        Capability = "Events"
)

// Driver is one protocol for BMCs and the capabilities that it supports at best: a BMC
// that offers less returns ErrNotSupported. Admission checks specs against Offers.
type Driver struct {
	// Name is the scheme of its addresses, such as "redfish" or "vendor+dell".
	Name string
	Dial Dialer
	// Offers lists capabilities in addition to Power, BootDevice and Inventory.
	Offers []Capability
	// Probe checks whether the BMC at the target's address speaks the driver's protocol. It
	// sends no credentials, even if the target holds some. A nil Probe means that Ingot
	// never looks for the protocol. Results:
	//   - nil: the BMC speaks the protocol;
	//   - ErrCertificate: it does, with a certificate that is not trusted;
	//   - ErrUnreachable, ErrNotSupported: it does not;
	//   - any other error: unknown.
	Probe func(ctx context.Context, target Target) error
	// TLS reports whether the BMC proves its identity by a certificate.
	TLS bool
}

// MediaKind is the device type that a virtual media slot emulates (Redfish
// VirtualMedia.MediaTypes, without floppies).
type MediaKind string

const (
	MediaCD  MediaKind = "CD"
	MediaDVD MediaKind = "DVD"
	MediaUSB MediaKind = "USBStick"
)

// MediaSlot is one slot for virtual media.
type MediaSlot struct {
	// ID is the BMC's own name of the slot: the @odata.id in Redfish.
	ID    string
	Kinds []MediaKind
	// Image is the inserted URL, without credentials. Some BMCs still report it after an
	// eject, so Inserted is authoritative.
	Image    string
	Inserted bool
}

// Media inserts and ejects virtual media.
type Media interface {
	// MediaSlots lists the slots of the system and of its manager, sorted by ID.
	MediaSlots(ctx context.Context) ([]MediaSlot, error)
	// InsertMedia inserts the image at url (http or https, no "&", no credentials) into a slot of
	// a kind. It ejects another image if needed and reads the slot back. It returns
	// ErrNotApplied if no slot accepted the image.
	InsertMedia(ctx context.Context, kind MediaKind, url string) (MediaSlot, error)
	// EjectMedia empties a slot; an empty slot is no error.
	EjectMedia(ctx context.Context, slot string) error
}

// ValueKind is the type of a firmware setting (Redfish AttributeRegistry.AttributeType).
type ValueKind string

const (
	ValueString      ValueKind = "String"
	ValueEnumeration ValueKind = "Enumeration"
	ValueInteger     ValueKind = "Integer"
	ValueBoolean     ValueKind = "Boolean"
)

// Value is the value of a firmware setting. Kind selects the field that counts; String and
// Enumeration share Text.
type Value struct {
	Kind ValueKind
	Text string
	Int  int64
	Bool bool
}

// String returns the value as an operator writes it.
func (v Value) String() string {
	switch v.Kind {
	case ValueInteger:
		return fmt.Sprint(v.Int)
	case ValueBoolean:
		return fmt.Sprint(v.Bool)
	default:
		return v.Text
	}
}

// SettingSchema describes one firmware setting.
type SettingSchema struct {
	Name     string
	Kind     ValueKind
	ReadOnly bool
	// Choices of an Enumeration.
	Choices []string
	// Min and Max bound an Integer, MaxLength the Text of a String; nil: unbounded.
	Min, Max  *int64
	MaxLength *int64
}

// Settings reads and changes the BIOS attributes, except passwords.
type Settings interface {
	// Settings returns the values in force.
	Settings(ctx context.Context) (map[string]Value, error)
	// SettingSchemas describes the settings, by name.
	SettingSchemas(ctx context.Context) (map[string]SettingSchema, error)
	// PendingSettings returns the values that take effect at the next boot.
	PendingSettings(ctx context.Context) (map[string]Value, error)
	// SetSettings requests values for the next boot. It converts text to the type of the
	// schema, or else of the value in force. It returns a *SettingError, and writes
	// nothing, if a name is unknown or read-only, or if a value does not fit.
	SetSettings(ctx context.Context, values map[string]string) error
	// ResetSettings requests the factory values for the next boot.
	ResetSettings(ctx context.Context) error
}

// SettingError is the reason why a setting was refused before it was sent.
type SettingError struct {
	Name, Value, Reason string
}

func (e *SettingError) Error() string {
	return fmt.Sprintf("%s=%q: %s", e.Name, e.Value, e.Reason)
}

// FirmwareItem is one entry of the firmware inventory.
type FirmwareItem struct {
	// ID is the BMC's own name: the @odata.id in Redfish.
	ID, Name, Version string
	Updateable        bool
	// FromEarlierRead marks an item from an earlier attempt at an inventory that was read in parts
	// (ErrUnfinished). It may have changed since.
	FromEarlierRead bool
}

// Update is a firmware image to install. Exactly one of URL and Image is set.
type Update struct {
	// URL is fetched by the BMC (SimpleUpdate).
	URL string
	// Image is streamed to the BMC (multipart push); Size is its length in bytes.
	Image io.Reader
	Size  int64
	// Filename is sent with a pushed image.
	Filename string
	// Targets are FirmwareItem IDs; empty: the BMC chooses.
	Targets []string
	// Component is the ID of the FirmwareItem that the image belongs to, for drivers that
	// need it. It is not sent as a target: images name their component, and some BMCs refuse
	// a list of targets. Empty: the driver uses the single target or the file name.
	Component string
}

// UpdateMethods are the ways by which a BMC receives an image, as far as it reports them.
type UpdateMethods struct {
	// Fetch: the BMC fetches an image from a URL. Protocols are in capitals; none: the BMC
	// does not report them.
	Fetch     bool
	Protocols []string
	// Push: the BMC accepts an image as a stream.
	Push bool
}

// TaskState is the progress of a long-running BMC job.
type TaskState string

const (
	TaskRunning   TaskState = "Running"
	TaskSucceeded TaskState = "Succeeded"
	TaskFailed    TaskState = "Failed"
	// TaskWaitsForReset: the job continues when the system or the BMC restarts.
	TaskWaitsForReset TaskState = "WaitsForReset"
)

// Task is a long-running BMC job.
type Task struct {
	// ID is the BMC's own name. Empty: the BMC reports nothing about the job, and only the
	// firmware version shows its result.
	ID    string
	State TaskState
	// Percent is 0 to 100; -1: not reported.
	Percent int
	// Message is the BMC's text, without secrets, at most 256 bytes.
	Message string
}

// Firmware reads and updates firmware.
type Firmware interface {
	FirmwareInventory(ctx context.Context) ([]FirmwareItem, error)
	// UpdateMethods returns the inputs that UpdateFirmware accepts; it writes nothing.
	UpdateMethods(ctx context.Context) (UpdateMethods, error)
	// UpdateFirmware starts an update. ctx bounds the transfer of an image, not the installation.
	UpdateFirmware(ctx context.Context, update Update) (Task, error)
	Task(ctx context.Context, id string) (Task, error)
}

// FirmwareReader is a Conn that can read one inventory item again, as a Pool's Conn can;
// see FirmwareItem.Earlier.
type FirmwareReader interface {
	// FirmwareItem returns ErrNotSupported if the item no longer exists, or if the driver
	// cannot read a single item.
	FirmwareItem(ctx context.Context, id string) (FirmwareItem, error)
}

// HealthState is the health of a component (Redfish Status.Health).
type HealthState string

// The states, best first.
const (
	HealthOK       HealthState = "OK"
	HealthWarning  HealthState = "Warning"
	HealthCritical HealthState = "Critical"
	HealthUnknown  HealthState = "Unknown"
)

// ComponentHealth is the health of one fan, power supply, drive or other component.
type ComponentHealth struct {
	// Kind uses Redfish's names: "Fan", "PowerSupply", "Drive", "Memory" and so on.
	Kind, Name string
	State      HealthState
	// Reading is the value with its unit, such as "4200 RPM"; may be empty.
	Reading string
}

// HealthReport is the health of a server.
type HealthReport struct {
	// Overall is the BMC's own summary.
	Overall    HealthState
	Components []ComponentHealth
}

// Health reads sensors and states; it writes nothing.
type Health interface {
	Health(ctx context.Context) (HealthReport, error)
}

// LogEntry is one entry of a BMC's event log.
type LogEntry struct {
	ID       string
	Created  time.Time
	Severity HealthState
	Message  string
}

// EventLog reads and clears the system event log.
type EventLog interface {
	// EventLog returns the newest entries, at most limit, newest first.
	EventLog(ctx context.Context, limit int) ([]LogEntry, error)
	ClearEventLog(ctx context.Context) error
}

// Console opens the serial console as a stream of bytes. The stream holds a session of the
// BMC until it is closed or ctx ends.
type Console interface {
	OpenConsole(ctx context.Context) (io.ReadWriteCloser, error)
}

// Accounts changes credentials.
type Accounts interface {
	// SetPassword changes the password of the connection's user. The session may end. After
	// ErrUnknownOutcome try both passwords (I17).
	SetPassword(ctx context.Context, password Password) error
}

// SecureBootState reports whether the firmware verifies the programs that it boots.
type SecureBootState struct {
	// Enabled applies to the next boot, Active to the current one.
	Enabled, Active bool
	// Mode is the Redfish SecureBootMode (DSP2046). In SetupMode and AuditMode the firmware
	// starts any program, enabled or not. Empty: the BMC does not report the mode.
	Mode string
	// Setting is the firmware setting that controls Secure Boot on this BMC; empty: the BMC
	// has a separate resource. Pending settings may block others until the next boot, so
	// write Secure Boot and other settings in one call.
	Setting SecureBootSetting
}

// SecureBootSetting is a firmware setting and the value that enables Secure Boot.
type SecureBootSetting struct{ Name, On string }

// IsEnforced reports whether the firmware honors Enabled. Without a mode, Ingot assumes that it does.
func (s SecureBootState) IsEnforced() bool { return s.Mode != "SetupMode" && s.Mode != "AuditMode" }

// SecureBoot reads and changes Secure Boot; a change takes effect at the next boot.
type SecureBoot interface {
	SecureBoot(ctx context.Context) (SecureBootState, error)
	SetSecureBoot(ctx context.Context, enabled bool) error
}

// Resetter restarts the BMC itself; the server keeps running. Every session ends.
type Resetter interface {
	ResetBMC(ctx context.Context) error
}

// Indicator switches the indicator LED that helps to find the server.
type Indicator interface {
	Indicator(ctx context.Context) (lit bool, _ error)
	SetIndicator(ctx context.Context, lit bool) error
}

// PollState is the state that Ingot reads from a server at every poll.
type PollState struct {
	Power PowerState
	// Health is the BMC's own summary; HealthUnknown if the BMC does not report one.
	Health HealthState
}

// Poller reads Vitals, with one request if the protocol allows it. An idle host costs its
// BMC nothing more.
type Poller interface {
	// PollState returns ErrNotSupported if a driver has no such request; a Pool then reads
	// only the power state.
	PollState(ctx context.Context) (PollState, error)
}

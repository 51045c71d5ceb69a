// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Capability names one interface that a driver may offer. Power, BootDevice and
// Inventory are every driver's.
type Capability string

// The capabilities, with the interface of each; Firmware is three of them, since BMCs
// differ in how an image comes to them.
const (
	CapPower      Capability = "Power"
	CapBootDevice Capability = "BootDevice"
	CapInventory  Capability = "Inventory"
	CapMedia      Capability = "Media"
	CapSettings   Capability = "Settings"
	// CapFirmware reads the versions; an update comes to the BMC by one of the ways of
	// CapFirmwareFetch and CapFirmwarePush, or by none.
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

// Driver is one way to speak to BMCs, and what it can do at best: a BMC may offer
// less, and then answers ErrNotSupported. Admission checks specs against Offers.
type Driver struct {
	// Name is the scheme of its addresses, such as "redfish" or "vendor+dell".
	Name string
	Dial Dialer
	// Offers beyond Power, BootDevice and Inventory.
	Offers []Capability
	// Probe finds out whether the BMC at the target's address, one of this driver,
	// speaks the driver's protocol. It sends no credentials, whatever the target
	// holds. Nil: it does. ErrUnreachable and ErrNotSupported: it does not, nobody
	// being there or somebody else. Any other error leaves it open, but for
	// ErrCertificate: it does, and its certificate is not trusted. A nil Probe:
	// the protocol is never looked for.
	Probe func(ctx context.Context, target Target) error
	// TLS: the BMC proves itself by a certificate, as the target wants it proved.
	TLS bool
}

// MediaKind is what a slot for virtual media pretends to be.
type MediaKind string

// The kinds (Redfish VirtualMedia.MediaTypes, without floppies).
const (
	MediaCD  MediaKind = "CD"
	MediaDVD MediaKind = "DVD"
	MediaUSB MediaKind = "USBStick"
)

// MediaSlot is one slot for virtual media.
type MediaSlot struct {
	// ID is the BMC's own name of the slot: for Redfish its @odata.id.
	ID    string
	Kinds []MediaKind
	// Image is the URL inserted, without credentials; some BMCs keep telling it
	// after an eject, so Inserted is what counts.
	Image    string
	Inserted bool
}

// Media inserts and ejects virtual media.
type Media interface {
	// MediaSlots lists the slots of the system and of its manager, in the order of
	// their IDs.
	MediaSlots(ctx context.Context) ([]MediaSlot, error)
	// InsertMedia puts the image at url (http or https, no "&", no credentials)
	// into a slot of a kind, ejecting another image, and reads back. It returns the
	// slot; ErrNotApplied when no slot took it.
	InsertMedia(ctx context.Context, kind MediaKind, url string) (MediaSlot, error)
	// EjectMedia empties a slot; an empty slot is no error.
	EjectMedia(ctx context.Context, slot string) error
}

// ValueKind is the type of a firmware setting.
type ValueKind string

// The kinds (Redfish AttributeRegistry.AttributeType).
const (
	ValueString      ValueKind = "String"
	ValueEnumeration ValueKind = "Enumeration"
	ValueInteger     ValueKind = "Integer"
	ValueBoolean     ValueKind = "Boolean"
)

// Value is the value of a firmware setting. Only the field that Kind names counts;
// String and Enumeration share Text.
type Value struct {
	Kind ValueKind
	Text string
	Int  int64
	Bool bool
}

// String is the value as a person writes it.
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

// Settings reads and changes what the firmware setup shows (BIOS attributes).
// Passwords among them are left out.
type Settings interface {
	// Settings are the values in force.
	Settings(ctx context.Context) (map[string]Value, error)
	// SettingSchemas describes them, by name; ErrNotSupported where the BMC cannot.
	SettingSchemas(ctx context.Context) (map[string]SettingSchema, error)
	// PendingSettings are those that take effect with the next boot.
	PendingSettings(ctx context.Context) (map[string]Value, error)
	// SetSettings asks for values: text is turned into the type that the schema, or
	// else the value in force, has. A name that is unknown, read-only, or whose value
	// does not fit, is a *SettingError, and nothing is written. They take effect with
	// the next boot.
	SetSettings(ctx context.Context, values map[string]string) error
	// ResetSettings asks for the factory's values at the next boot.
	ResetSettings(ctx context.Context) error
}

// SettingError says why a setting was refused before it was sent.
type SettingError struct {
	Name, Value, Why string
}

// Error implements error.
func (e *SettingError) Error() string {
	return fmt.Sprintf("setting %s=%q: %s", e.Name, e.Value, e.Why)
}

// FirmwareItem is one piece of firmware.
type FirmwareItem struct {
	// ID is the BMC's own name: for Redfish the @odata.id.
	ID, Name, Version string
	Updateable        bool
	// Earlier: it was read by an earlier try of an inventory that came in parts
	// (ErrUnfinished), and may be another by now.
	Earlier bool
}

// Update is what to install. Exactly one of URL and Image is set.
type Update struct {
	// URL that the BMC fetches (SimpleUpdate).
	URL string
	// Image is streamed to the BMC (multipart push), Size bytes of it.
	Image io.Reader
	Size  int64
	// Filename is told to the BMC with a pushed image.
	Filename string
	// Targets are FirmwareItem IDs; empty: the BMC finds out.
	Targets []string
	// Component is the ID of the FirmwareItem that the image is of, for drivers that have
	// to know it. It is no target: images name what they are of, and some BMCs refuse the
	// list. Empty: the one target, or the file name, says it.
	Component string
}

// UpdateWays are the ways by which a BMC takes an image, as far as it tells.
type UpdateWays struct {
	// Fetch: it fetches one from a URL, by one of Protocols, in capitals; none: it does
	// not say by which.
	Fetch     bool
	Protocols []string
	// Push: it takes one as a stream.
	Push bool
}

// TaskState is how far a long job of a BMC is.
type TaskState string

// The states.
const (
	TaskRunning   TaskState = "Running"
	TaskSucceeded TaskState = "Succeeded"
	TaskFailed    TaskState = "Failed"
	// TaskWaitsForReset: it goes on when the system, or the BMC, restarts.
	TaskWaitsForReset TaskState = "WaitsForReset"
)

// Task is a long job of a BMC.
type Task struct {
	// ID is the BMC's own name; empty: the BMC tells nothing of it, and the
	// firmware's version is the proof.
	ID    string
	State TaskState
	// Percent is 0 to 100; -1: not told.
	Percent int
	// Message is the BMC's, without secrets, at most 256 bytes.
	Message string
}

// Firmware reads and updates firmware.
type Firmware interface {
	FirmwareInventory(ctx context.Context) ([]FirmwareItem, error)
	// UpdateWays are what UpdateFirmware may be given; it writes nothing.
	UpdateWays(ctx context.Context) (UpdateWays, error)
	// UpdateFirmware starts an update; the context bounds the transfer of an image,
	// not the installation.
	UpdateFirmware(ctx context.Context, update Update) (Task, error)
	Task(ctx context.Context, id string) (Task, error)
}

// FirmwareReader is a Conn that reads one item of its firmware inventory anew, as those of
// a Pool do; see FirmwareItem.Earlier.
type FirmwareReader interface {
	// FirmwareItem reads an item by its ID. ErrNotSupported: it is there no more, or the
	// driver does not read one alone.
	FirmwareItem(ctx context.Context, id string) (FirmwareItem, error)
}

// HealthState is how well a component is (Redfish Status.Health).
type HealthState string

// The states, best first.
const (
	HealthOK       HealthState = "OK"
	HealthWarning  HealthState = "Warning"
	HealthCritical HealthState = "Critical"
	HealthUnknown  HealthState = "Unknown"
)

// ComponentHealth is the health of one fan, power supply, drive, ….
type ComponentHealth struct {
	// Kind is in Redfish's words: "Fan", "PowerSupply", "Drive", "Memory", ….
	Kind, Name string
	State      HealthState
	// Reading with its unit for people, such as "4200 RPM"; may be empty.
	Reading string
}

// HealthReport is how well a server is.
type HealthReport struct {
	// Overall is the BMC's own sum.
	Overall    HealthState
	Components []ComponentHealth
}

// Health reads sensors and states; it writes nothing.
type Health interface {
	Health(ctx context.Context) (HealthReport, error)
}

// LogEntry is one line of a BMC's event log.
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

// Console opens the serial console as a stream of bytes. It holds a session of the
// BMC until the stream is closed, or ctx ends.
type Console interface {
	OpenConsole(ctx context.Context) (io.ReadWriteCloser, error)
}

// Accounts changes credentials.
type Accounts interface {
	// SetPassword gives the account of the connection's user a new password. The
	// session may end with it. ErrUnknownOutcome: try both (I17).
	SetPassword(ctx context.Context, password Password) error
}

// SecureBootState is whether the firmware verifies what it boots.
type SecureBootState struct {
	// Enabled for the next boot, Active in this one.
	Enabled, Active bool
	// Mode is SecureBootMode as Redfish has it (DSP2046): with SetupMode and AuditMode
	// the firmware starts anything, enabled or not. Empty: the BMC does not tell.
	Mode string
	// Setting is the firmware setting by which the BMC switches it (Settings); empty: it
	// has a way of its own. Settings that wait for a boot may keep others out until then:
	// who writes both writes them at once.
	Setting SecureBootSetting
}

// SecureBootSetting is a firmware setting and its value for Secure Boot.
type SecureBootSetting struct{ Name, On string }

// Enforced says whether the firmware heeds Enabled. A BMC that tells no mode is believed.
func (s SecureBootState) Enforced() bool { return s.Mode != "SetupMode" && s.Mode != "AuditMode" }

// SecureBoot reads and changes it; the change takes effect with the next boot.
type SecureBoot interface {
	SecureBoot(ctx context.Context) (SecureBootState, error)
	SetSecureBoot(ctx context.Context, enabled bool) error
}

// Resetter restarts the BMC itself; the server keeps running. Every session ends.
type Resetter interface {
	ResetBMC(ctx context.Context) error
}

// Indicator is the lamp by which a person finds the server.
type Indicator interface {
	Indicator(ctx context.Context) (lit bool, _ error)
	SetIndicator(ctx context.Context, lit bool) error
}

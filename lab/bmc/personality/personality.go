// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package personality

import (
	"cmp"
	"slices"
	"time"
)

// Slot is a slot for virtual media.
type Slot struct {
	ID string
	// Kinds with their Redfish names: "CD", "DVD", "USBStick", "Floppy".
	Kinds []string
}

// Parent is the parent of a service: the system or its manager.
type Parent string

// The parents.
const (
	OnSystem  Parent = "System"
	OnManager Parent = "Manager"
)

// Sensors is how a chassis shows fans, power supplies and temperatures.
type Sensors string

// The kinds: Thermal and Power (until Redfish 2020.4), or ThermalSubsystem,
// PowerSubsystem and Sensors; some BMCs have both.
const (
	OldSensors  Sensors = "Thermal"
	NewSensors  Sensors = "ThermalSubsystem"
	BothSensors Sensors = "Both"
)

// Personality describes the BMC of one vendor. The zero value is a bare BMC: power, boot override,
// interfaces and sessions, and no other service.
type Personality struct {
	// Name such as "dell-idrac9"; empty: bare.
	Name string
	// Vendor of the service root; Manufacturer, Model of the server; firmware
	// versions of the BMC and the server's firmware.
	Vendor, Manufacturer, Model, BMCFirmware, BIOSFirmware string
	// RedfishVersion of the service root.
	RedfishVersion string
	// SystemID is the last segment of the system's path; empty: the personality's, or "1".
	SystemID, ManagerID, ChassisID string
	// ResetTypes of the manager.
	ManagerResetTypes []string
	// Targets of the boot override, None first; Modes it may have.
	Targets, Modes []string
	// NoHTTPBootURI has no Boot.HttpBootUri and refuses it.
	NoHTTPBootURI bool

	// MaxSessions that may be open, and the time after which an unused one ends.
	MaxSessions    int
	SessionTimeout time.Duration
	// Basic authentication is accepted too.
	Basic bool
	// SessionContext stores the Context of a login in the session; without it, such a login is
	// refused.
	SessionContext bool
	// AccountID of the only account; EmptyAccounts are listed slots without a name. PasswordMax bounds
	// passwords, in bytes.
	AccountID     string
	EmptyAccounts []string
	PasswordMax   int

	// Media slots, and where they are.
	Media   []Slot
	MediaAt Parent
	// BIOSSettings is the last segment of the settings object of Bios; empty: no Bios resource.
	// BIOSRegistry is the ID of the AttributeRegistry; empty: none.
	BIOSSettings, BIOSRegistry string
	SecureBoot                 bool
	// LogAt and Log are the parent and the ID of the system event log.
	LogAt Parent
	Log   string
	// OldLED has IndicatorLED instead of LocationIndicatorActive.
	OldLED  bool
	Sensors Sensors
	// SimpleUpdate and the path for multipart push; empty: none.
	SimpleUpdate bool
	PushPath     string
	// HTTPPush is the path for a plain image (HttpPushUri); empty: none. HTTPPushForm requires a form
	// with the ETag of that path, and installs the image only by SimpleUpdate (Dell).
	HTTPPush     string
	HTTPPushForm bool
	// StagedPush keeps a pushed image until StartUpdate, after a task that verifies it, and accepts
	// the system's Bios and the manager as targets (Supermicro X12).
	StagedPush bool
	// WebBoard is the part number in the web interface of Supermicro boards; empty: no web interface.
	// WebFlash accepts firmware there (X11).
	WebBoard string
	WebFlash bool
	// FrontPage is the text at /; empty: none.
	FrontPage string
	// Jobs is the path of the manager's job queue; empty: none (Dell).
	Jobs string
	// Subscriptions is the maximum number of event subscriptions; 0: no event service. SSE offers
	// server-sent events.
	Subscriptions int
	SSE           bool
	// PowerEvents are the message IDs of power on and power off.
	PowerEvents [2]string

	Quirks Quirks
}

const root = "/redfish/v1"

// System returns the path of the system.
func (p Personality) System() string {
	return root + "/Systems/" + cmp.Or(p.Quirks.SystemID, p.SystemID, "1")
}

// Manager returns the path of the manager.
func (p Personality) Manager() string { return root + "/Managers/" + cmp.Or(p.ManagerID, "1") }

// Chassis returns the path of the chassis.
func (p Personality) Chassis() string { return root + "/Chassis/" + cmp.Or(p.ChassisID, "1") }

// At returns the path of a Parent.
func (p Personality) At(parent Parent) string {
	if parent == OnManager {
		return p.Manager()
	}
	return p.System()
}

// Bare reports whether p is the zero value.
func (p Personality) Bare() bool { return p.Name == "" }

// All returns new personalities, the standard's own first.
func All() []Personality {
	return []Personality{
		Standard(), iDRAC9(), iDRAC10(), iLO5(), iLO6(), supermicroX11(), supermicroX12(), xcc(), openBMC(), ami(), iDRAC9Early(), openBMCEarly(),
	}
}

// Variants returns personalities for deviations that no personality of All has.
func Variants() []Personality { return []Personality{basicOnly(), megaRAC(), factory()} }

// Named returns the personality with a name, of All or Variants.
func Named(name string) (Personality, bool) {
	all := slices.Concat(All(), Variants())
	i := slices.IndexFunc(all, func(p Personality) bool { return p.Name == name })
	if i < 0 {
		return Personality{}, false
	}
	return all[i], true
}

// basicOnly is a service without sessions and otherwise unlike sushy-tools.
func basicOnly() Personality {
	p := Standard()
	p.Name, p.Quirks.BasicOnly = "basic-only", true
	return p
}

// factory is OpenBMC with its factory password, which must be changed first.
func factory() Personality {
	p := openBMC()
	p.Name, p.Quirks.FactoryPassword = "openbmc-factory", true
	return p
}

// Standard is a BMC as in DSP0266 and DSP2046 with everything that the emulator supports.
func Standard() Personality {
	return Personality{
		Name: "standard", Vendor: "Contoso", Manufacturer: "Contoso", Model: "3500", BMCFirmware: "1.45.455b66-rev4", BIOSFirmware: "P79 v1.45",
		RedfishVersion: "1.17.0", SystemID: "437XR1138R2", ManagerID: "BMC", ChassisID: "1U",
		ManagerResetTypes: []string{"ForceRestart", "GracefulRestart"},
		Targets:           []string{"None", "Pxe", "Hdd", "Cd", "Usb", "BiosSetup", "UefiHttp"}, Modes: []string{"UEFI", "Legacy"},
		MaxSessions: 16, SessionTimeout: 30 * time.Minute, Basic: true, SessionContext: true, AccountID: "1", PasswordMax: 64,
		Media:   []Slot{{ID: "CD1", Kinds: []string{"CD", "DVD"}}, {ID: "USB1", Kinds: []string{"USBStick"}}},
		MediaAt: OnSystem, BIOSSettings: "Settings", BIOSRegistry: "BiosAttributeRegistryP79.v1_0_0", SecureBoot: true,
		LogAt: OnSystem, Log: "SEL", Sensors: NewSensors,
		SimpleUpdate: true, PushPath: root + "/UpdateService/upload", Subscriptions: 20, SSE: true,
		PowerEvents: [2]string{"ResourceEvent.1.3.ResourcePoweredOn", "ResourceEvent.1.3.ResourcePoweredOff"},
		Quirks:      Quirks{Expand: true},
	}
}

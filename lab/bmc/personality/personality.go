// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package personality

import (
	"cmp"
	"slices"
	"time"
)

// Slot is one slot for virtual media.
type Slot struct {
	ID string
	// Kinds in Redfish's words: "CD", "DVD", "USBStick", "Floppy".
	Kinds []string
}

// Place is where a service hangs: below the system or below its manager.
type Place string

// The places.
const (
	OnSystem  Place = "System"
	OnManager Place = "Manager"
)

// Sensors is how a chassis tells of fans, supplies and temperatures.
type Sensors string

// The ways: Thermal and Power (until Redfish 2020.4), or ThermalSubsystem,
// PowerSubsystem and Sensors; some BMCs have both.
const (
	OldSensors  Sensors = "Thermal"
	NewSensors  Sensors = "ThermalSubsystem"
	BothSensors Sensors = "Both"
)

// Personality is one maker's BMC. The zero value is a bare one: power, boot
// override, interfaces and sessions, and no other service.
type Personality struct {
	// Name such as "dell-idrac9"; empty: bare.
	Name string
	// Vendor of the service root; Manufacturer, Model of the server; firmware
	// versions of the BMC and the server's firmware.
	Vendor, Manufacturer, Model, BMCFirmware, BIOSFirmware string
	// RedfishVersion that the root tells.
	RedfishVersion string
	// Last segments of the paths.
	SystemID, ManagerID, ChassisID string
	// ResetTypes of the manager.
	ManagerResetTypes []string
	// Targets of the boot override, None first; Modes it may have.
	Targets, Modes []string
	// NoHTTPBootURI has no Boot.HttpBootUri and refuses one.
	NoHTTPBootURI bool

	// MaxSessions that may be open, and the time after which an unused one ends.
	MaxSessions    int
	SessionTimeout time.Duration
	// Basic authentication is taken too.
	Basic bool
	// SessionContext keeps what a login gives as Context with the session; without it,
	// such a login is refused.
	SessionContext bool
	// AccountID of the only account; EmptyAccounts are slots without a name that
	// are listed beside it. PasswordMax bounds passwords, in bytes.
	AccountID     string
	EmptyAccounts []string
	PasswordMax   int

	// Media slots, and where they are.
	Media   []Slot
	MediaAt Place
	// BIOSSettings is the last segment of the settings object of Bios; empty: no
	// Bios resource. BIOSRegistry is the AttributeRegistry's ID; empty: none.
	BIOSSettings, BIOSRegistry string
	SecureBoot                 bool
	// LogAt and Log are the place and ID of the system event log.
	LogAt Place
	Log   string
	// OldLED has IndicatorLED instead of LocationIndicatorActive.
	OldLED  bool
	Sensors Sensors
	// SimpleUpdate and the path for multipart push; empty: none.
	SimpleUpdate bool
	PushPath     string
	// HTTPPush is the path for a push of an image alone (HttpPushUri); empty: none.
	// HTTPPushForm wants it as the file of a form, with the ETag of what is at the path,
	// and installs it only by a SimpleUpdate of where it then is (Dell).
	HTTPPush     string
	HTTPPushForm bool
	// StagedPush lets an image that was pushed for it wait for StartUpdate, after a
	// task that verifies it, and takes the system's Bios and the manager for targets
	// (Supermicro X12).
	StagedPush bool
	// WebBoard is the part number that the web interface of Supermicro's boards tells;
	// empty: there is none. WebFlash pushes firmware there (X11).
	WebBoard string
	WebFlash bool
	// FrontPage is the text at /; empty: there is none.
	FrontPage string
	// Jobs is the path of a manager's job queue; empty: none (Dell).
	Jobs string
	// Subscriptions is how many event subscriptions there may be; 0: no event
	// service. SSE offers server-sent events.
	Subscriptions int
	SSE           bool
	// PowerEvents are the message IDs told when power goes on and off.
	PowerEvents [2]string

	Quirks Quirks
}

const root = "/redfish/v1"

// System is the system's path.
func (p Personality) System() string {
	return root + "/Systems/" + cmp.Or(p.Quirks.SystemID, p.SystemID, "1")
}

// Manager is the manager's path.
func (p Personality) Manager() string { return root + "/Managers/" + cmp.Or(p.ManagerID, "1") }

// Chassis is the chassis' path.
func (p Personality) Chassis() string { return root + "/Chassis/" + cmp.Or(p.ChassisID, "1") }

// At is the path of the place.
func (p Personality) At(place Place) string {
	if place == OnManager {
		return p.Manager()
	}
	return p.System()
}

// Bare is what the zero value is.
func (p Personality) Bare() bool { return p.Name == "" }

// All lists the personalities, the standard's own first. Each call makes new ones.
func All() []Personality {
	return []Personality{
		Standard(), iDRAC9(), iDRAC10(), iLO5(), iLO6(), supermicroX11(), supermicroX12(), xcc(), openBMC(), ami(), iDRAC9Early(), openBMCEarly(),
	}
}

// Variants are further personalities, which are not among those of the makers: one for each
// way in which services deviate that no maker of All has.
func Variants() []Personality { return []Personality{basicOnly(), megaRAC(), factory()} }

// Named is the personality of the name, one of All or Variants.
func Named(name string) (Personality, bool) {
	all := slices.Concat(All(), Variants())
	i := slices.IndexFunc(all, func(p Personality) bool { return p.Name == name })
	if i < 0 {
		return Personality{}, false
	}
	return all[i], true
}

// basicOnly is a service without sessions. Nothing else of sushy-tools is in it.
func basicOnly() Personality {
	p := Standard()
	p.Name, p.Quirks.BasicOnly = "basic-only", true
	return p
}

// factory is OpenBMC as it is delivered: its password has to be changed first.
func factory() Personality {
	p := openBMC()
	p.Name, p.Quirks.FactoryPassword = "openbmc-factory", true
	return p
}

// Standard is what DSP0266 and DSP2046 describe, with everything the emulator has.
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

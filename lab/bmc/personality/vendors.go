// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package personality

import "time"

func dellResets() []string {
	return []string{"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"}
}

func iLOResets() []string {
	return []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"}
}

func superResets() []string {
	return []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "Nmi", "ForceOn"}
}

// iDRAC9 has at most 8 sessions, changes boot mode and Secure Boot only by a reboot job and BIOS
// settings by jobs, refuses If-Match on SimpleUpdate, and has media below the manager, which boot
// by its attributes.
func iDRAC9() Personality {
	manager := root + "/Managers/iDRAC.Embedded.1"
	return Personality{
		Name: "dell-idrac9", Vendor: "Dell", Manufacturer: "Dell Inc.", Model: "PowerEdge R640", BMCFirmware: "6.10.80.00", BIOSFirmware: "2.19.1",
		RedfishVersion: "1.13.1", SystemID: "System.Embedded.1", ManagerID: "iDRAC.Embedded.1", ChassisID: "System.Embedded.1",
		ManagerResetTypes: []string{"GracefulRestart"},
		Targets:           []string{"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp"},
		Modes:             []string{"Legacy", "UEFI"},
		MaxSessions:       8, SessionTimeout: 30 * time.Minute, Basic: true,
		AccountID: "2", EmptyAccounts: []string{"1", "3", "4"}, PasswordMax: 127,
		Media:   []Slot{{ID: "RemovableDisk", Kinds: []string{"USBStick"}}, {ID: "CD", Kinds: []string{"CD", "DVD"}}},
		MediaAt: OnManager, BIOSSettings: "Settings", BIOSRegistry: "BiosAttributeRegistry.v1_0_0", SecureBoot: true,
		LogAt: OnManager, Log: "Sel", Sensors: BothSensors,
		SimpleUpdate: true, PushPath: root + "/UpdateService/MultipartUpload", Jobs: manager + "/Jobs",
		Subscriptions: 8, SSE: true, PowerEvents: [2]string{"IDRAC.2.8.SYS1000", "IDRAC.2.8.SYS1001"},
		Quirks: Quirks{
			ResetTypes: dellResets(), BootModeByJob: true, SettingsByJob: true, UpdateNoIfMatch: true, LowerUUID: true, SamePowerStatus: 409, PhysicalCD: true,
			Expand: true, RegistryNames: RegistryNames{
				Bios: "BiosAttributeRegistry.v1_0_3", ID: "BiosAttributeRegistry.v1_0_3", Others: []string{"ManagerAttributeRegistry.v1_0_0", "NetworkAttributesRegistry_NIC.Integrated.1-1-1"},
			},
		},
	}
}

// iDRAC9Early takes images in two steps: a form below its inventory, and SimpleUpdate of the
// stored image.
func iDRAC9Early() Personality {
	p := iDRAC9()
	p.Name, p.BMCFirmware, p.RedfishVersion = "dell-idrac9-early", "3.36.36.36", "1.4.0"
	p.PushPath, p.HTTPPush, p.HTTPPushForm = "", root+"/UpdateService/FirmwareInventory", true
	return p
}

// iDRAC10 is iDRAC9 with media below the system, a Boot object that is read-only on the system,
// and ETags that end in -gzip.
func iDRAC10() Personality {
	p := iDRAC9()
	p.Name, p.Model, p.BMCFirmware, p.BIOSFirmware, p.RedfishVersion = "dell-idrac10", "PowerEdge R670", "1.20.50.50", "1.2.6", "1.20.1"
	p.Media = []Slot{{ID: "1", Kinds: []string{"CD", "DVD", "USBStick"}}, {ID: "2", Kinds: []string{"CD", "DVD", "USBStick"}}}
	p.MediaAt, p.Sensors, p.Modes = OnSystem, NewSensors, []string{"UEFI"}
	p.Quirks.BootSettingsURI, p.Quirks.ETag, p.Quirks.GzipETag = true, true, true
	p.Quirks.OnConflicts, p.Quirks.BootOnlyInSettings = 2, true
	return p
}

// iLO5 answers 400 to an empty HttpBootUri and to Enabled with target None. It has a fixed boot
// mode, drives without a state, the old Thermal and Power, and refusals with only an ID.
func iLO5() Personality {
	return Personality{
		Name: "hpe-ilo5", Vendor: "HPE", Manufacturer: "HPE", Model: "ProLiant DL360 Gen10", BMCFirmware: "iLO 5 v2.78", BIOSFirmware: "U32 v2.76",
		RedfishVersion: "1.6.0", SystemID: "1", ManagerID: "1", ChassisID: "1",
		ManagerResetTypes: []string{"ForceRestart", "GracefulRestart"},
		Targets:           []string{"None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiShell", "UefiHttp", "UefiTarget"},
		Modes:             []string{"Legacy", "UEFI"},
		MaxSessions:       16, SessionTimeout: 30 * time.Minute, Basic: true, AccountID: "1", PasswordMax: 39,
		Media:   []Slot{{ID: "1", Kinds: []string{"Floppy", "USBStick"}}, {ID: "2", Kinds: []string{"CD", "DVD"}}},
		MediaAt: OnManager, BIOSSettings: "settings", BIOSRegistry: "BiosAttributeRegistryU32.v1_2_76", SecureBoot: true,
		LogAt: OnSystem, Log: "IML", OldLED: true, Sensors: OldSensors,
		SimpleUpdate: true, PushPath: root + "/UpdateService/update", Subscriptions: 10, SSE: true,
		PowerEvents: [2]string{"iLOEvents.2.3.ServerPoweredOn", "iLOEvents.2.3.ServerPoweredOff"},
		Quirks: Quirks{
			ResetTypes: iLOResets(), GzipRegistry: true, WholePending: true, NoEmptyHTTPBootURI: true, NoTargetNone: true, FixedBootMode: true, OmitDriveState: true, SamePowerStatus: 400,
			POSTRefusals: 2, ErrorsByID: true,
		},
	}
}

// iLO6 is iLO 5 with both kinds of sensors, LocationIndicatorActive, media still below the
// manager, and a boot mode that can be set.
func iLO6() Personality {
	p := iLO5()
	p.Name, p.Model, p.BMCFirmware, p.BIOSFirmware = "hpe-ilo6", "ProLiant DL360 Gen11", "iLO 6 v1.55", "U54 v1.54"
	p.RedfishVersion, p.BIOSRegistry = "1.13.0", "BiosAttributeRegistryU54.v1_1_54"
	p.OldLED, p.Sensors = false, BothSensors
	p.Quirks.FixedBootMode = false
	return p
}

// supermicroX11 falls back to Legacy, requires Enabled in an override, still shows an ejected
// image, and has one CD below the manager, no push and no event stream.
func supermicroX11() Personality {
	return Personality{
		Name: "supermicro-x11", Vendor: "Supermicro", Manufacturer: "Supermicro", Model: "SYS-1029P-WTR", BMCFirmware: "01.73.12", BIOSFirmware: "3.4",
		RedfishVersion: "1.0.1", SystemID: "1", ManagerID: "1", ChassisID: "1",
		Targets: []string{"None", "Pxe", "Hdd", "Diags", "CD/DVD", "BiosSetup", "FloppyRemovableMedia", "UsbKey", "UsbHdd", "UsbFloppy", "UsbCd", "UefiUsbKey", "UefiCd", "UefiHdd"},
		Modes:   []string{"Legacy", "UEFI"}, NoHTTPBootURI: true,
		MaxSessions: 16, SessionTimeout: 5 * time.Minute, Basic: true, AccountID: "2", EmptyAccounts: []string{"1"}, PasswordMax: 20,
		Media: []Slot{{ID: "CD1", Kinds: []string{"CD", "DVD"}}}, MediaAt: OnManager,
		BIOSSettings: "SD", BIOSRegistry: "BiosAttributeRegistry.1.0.0",
		LogAt: OnManager, Log: "Log1", OldLED: true, Sensors: OldSensors,
		SimpleUpdate: true, Subscriptions: 4, WebBoard: "X11SCM-F", WebFlash: true,
		PowerEvents: Standard().PowerEvents,
		Quirks: Quirks{
			ResetTypes: superResets(), ForgetBootMode: true, NeedEnabled: true, KeepImageName: true, PlainMediaURL: true, NoMediaFlags: true,
			ResetWithoutType: true, SettingsETag: true, SilentUpdate: true, SwapUUID: true,
		},
	}
}

// supermicroX12 has UefiHttp, push with tasks, and Manager.Reset with a type.
func supermicroX12() Personality {
	p := supermicroX11()
	p.Name, p.Model, p.BMCFirmware, p.BIOSFirmware, p.RedfishVersion = "supermicro-x12", "SYS-120U-TNR", "01.04.08", "1.6", "1.11.0"
	p.Targets = []string{"None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "UsbCd", "UefiBootNext", "UefiHttp"}
	p.NoHTTPBootURI, p.ManagerResetTypes, p.Sensors, p.SecureBoot = false, []string{"GracefulRestart"}, BothSensors, true
	p.LogAt, p.PushPath, p.Subscriptions, p.SSE = OnSystem, root+"/UpdateService/upload", 10, true
	p.StagedPush, p.WebBoard, p.WebFlash = true, "X12STH-SYS", false
	p.Media = []Slot{{ID: "VirtualMedia1", Kinds: []string{"CD", "DVD"}}, {ID: "VirtualMedia2", Kinds: []string{"CD", "DVD"}}}
	p.Quirks.RegistryNames = RegistryNames{Member: "BiosAttributeRegistry.v1_0_0", File: "BiosAttributeRegistry1.0"}
	p.Quirks.ResetWithoutType, p.Quirks.NoMediaFlags, p.Quirks.SilentUpdate, p.Quirks.SwapUUID = false, false, false, false
	return p
}

// xcc inserts media by PATCH, after slots that only its own console uses, and refuses boot changes
// during POST.
func xcc() Personality {
	return Personality{
		Name: "lenovo-xcc", Vendor: "Lenovo", Manufacturer: "Lenovo", Model: "ThinkSystem SR630 V2", BMCFirmware: "AFBT20X-1.89", BIOSFirmware: "AFE126H-1.51",
		RedfishVersion: "1.14.0", SystemID: "1", ManagerID: "1", ChassisID: "1",
		ManagerResetTypes: []string{"GracefulRestart", "ForceRestart"},
		Targets:           []string{"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "Diags", "UefiTarget", "UefiHttp"}, Modes: []string{"UEFI", "Legacy"},
		MaxSessions: 16, SessionTimeout: 20 * time.Minute, Basic: true, AccountID: "1", PasswordMax: 32,
		Media: []Slot{
			{ID: "RDOC1", Kinds: []string{"CD", "USBStick"}}, {ID: "RDOC2", Kinds: []string{"CD", "USBStick"}},
			{ID: "EXT1", Kinds: []string{"CD", "DVD", "USBStick"}}, {ID: "EXT2", Kinds: []string{"CD", "DVD", "USBStick"}},
		},
		MediaAt: OnManager, BIOSSettings: "Pending", BIOSRegistry: "BiosAttributeRegistry.1.0.0", SecureBoot: true,
		LogAt: OnSystem, Log: "PlatformLog", Sensors: BothSensors,
		SimpleUpdate: true, PushPath: root + "/mfwupdate", Subscriptions: 8, SSE: true,
		PowerEvents: Standard().PowerEvents,
		Quirks:      Quirks{MediaByPatch: true, DumbSlots: 2, DumbSlotStatus: 404, POSTRefusals: 2},
	}
}

// openBMC has no Bios resource and no Secure Boot. Its first media slot has no actions, and the
// other takes only https. It shows transitional power states.
func openBMC() Personality {
	return Personality{
		Name: "openbmc", Vendor: "OpenBMC", Manufacturer: "Wiwynn", Model: "SV7220G3", BMCFirmware: "2.14.0-dev", BIOSFirmware: "Y3DCM03",
		RedfishVersion: "1.17.0", SystemID: "system", ManagerID: "bmc", ChassisID: "chassis",
		ManagerResetTypes: []string{"GracefulRestart", "ForceRestart"},
		Targets:           []string{"None", "Pxe", "Hdd", "Cd", "Diags", "BiosSetup", "Usb"}, Modes: []string{"UEFI", "Legacy"}, NoHTTPBootURI: true,
		MaxSessions: 64, SessionTimeout: 30 * time.Minute, Basic: true, SessionContext: true, AccountID: "root", PasswordMax: 20,
		Media:   []Slot{{ID: "Slot_0", Kinds: []string{"CD", "USBStick"}}, {ID: "Slot_2", Kinds: []string{"CD", "USBStick"}}},
		MediaAt: OnManager, LogAt: OnSystem, Log: "EventLog", Sensors: BothSensors,
		SimpleUpdate: false, PushPath: root + "/UpdateService/update-multipart", HTTPPush: root + "/UpdateService/update", Subscriptions: 20, SSE: true,
		FrontPage:   "<!doctype html><title>OpenBMC Web UI</title>",
		PowerEvents: [2]string{"OpenBMC.0.4.DCPowerOn", "OpenBMC.0.4.DCPowerOff"},
		Quirks: Quirks{
			ResetTypesByActionInfo: true, ResetTypes: []string{"On", "ForceOff", "ForceOn", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PowerCycle", "Nmi"},
			DumbSlots: 1, DumbSlotStatus: 405, LowerUUID: true, SlowEject: 2, Transitions: true, HTTPSMedia: true, OneTarget: true,
		},
	}
}

// openBMCEarly takes plain images at its update service.
func openBMCEarly() Personality {
	p := openBMC()
	p.Name, p.BMCFirmware = "openbmc-early", "2.8.0"
	p.PushPath, p.HTTPPush = "", root+"/UpdateService"
	return p
}

// ami takes boot override and settings only at its future state URIs, complete and with an ETag.
func ami() Personality {
	return Personality{
		Name: "ami", Vendor: "AMI", Manufacturer: "ASRockRack", Model: "1U2E-ROME", BMCFirmware: "13.05.00", BIOSFirmware: "P3.50",
		RedfishVersion: "1.11.0", SystemID: "Self", ManagerID: "Self", ChassisID: "Self",
		ManagerResetTypes: []string{"ForceRestart"},
		Targets:           []string{"None", "Pxe", "Floppy", "Cd", "Usb", "Hdd", "BiosSetup", "Utilities", "Diags", "UefiTarget", "UefiHttp"},
		Modes:             []string{"Legacy", "UEFI"},
		MaxSessions:       32, SessionTimeout: 30 * time.Minute, AccountID: "1", PasswordMax: 20,
		Media:   []Slot{{ID: "CD1", Kinds: []string{"CD", "DVD"}}, {ID: "HD1", Kinds: []string{"USBStick"}}},
		MediaAt: OnManager, BIOSSettings: "SD", BIOSRegistry: "BiosAttributeRegistry.v1_0_0", SecureBoot: true,
		LogAt: OnManager, Log: "SEL", OldLED: true, Sensors: OldSensors,
		SimpleUpdate: true, PushPath: root + "/UpdateService/upload", Subscriptions: 16, SSE: true,
		PowerEvents: Standard().PowerEvents,
		Quirks: Quirks{
			ResetTypes:      []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle"},
			BootFutureState: true, NeedWholeBoot: true, SettingsETag: true, LogoutOnPassword: true, SlowMedia: 1,
		},
	}
}

// megaRAC is AMI's firmware on another vendor's board, as reported: it refuses its own weak ETags,
// has no settings object in Bios, and requires more parameters for InsertMedia.
func megaRAC() Personality {
	p := ami()
	p.Name, p.Manufacturer, p.Model, p.BMCFirmware = "ami-megarac", "GIGABYTE", "R282-Z93-00", "12.61.21"
	p.Quirks.WeakTag, p.Quirks.NoSettingsObject = true, true
	p.Quirks.MediaWants = []string{"TransferProtocolType", "TransferMethod", "UserName"}
	return p
}

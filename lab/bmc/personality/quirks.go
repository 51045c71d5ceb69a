// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package personality

// Quirks are deviations from the standard. They are fixed while a BMC runs.
type Quirks struct {
	// ResetTypes allowed; empty: all that the emulator knows.
	ResetTypes []string
	// ResetTypesByActionInfo shows them only in an ActionInfo resource.
	ResetTypesByActionInfo bool
	// NoAllowableValues shows them nowhere.
	NoAllowableValues bool
	// NoBootMode has no BootSourceOverrideMode and refuses it (Supermicro X10).
	NoBootMode bool
	// FixedBootMode refuses a change of the mode (some iLO 5).
	FixedBootMode bool
	// ForgetBootMode falls back to Legacy if the override is changed without a mode (Supermicro).
	ForgetBootMode bool
	// NeedEnabled refuses an override without BootSourceOverrideEnabled.
	NeedEnabled bool
	// NeedWholeBoot refuses an override without mode, enabled or target (AMI).
	NeedWholeBoot bool
	// NoTargetNone refuses BootSourceOverrideEnabled with target None (iLO).
	NoTargetNone bool
	// NoEmptyHTTPBootURI refuses an empty HttpBootUri (iLO). A BMC without a personality always does.
	NoEmptyHTTPBootURI bool
	// BootSettingsURI makes Boot read-only on the system and writable on the resource in
	// @Redfish.Settings (iDRAC10).
	BootSettingsURI bool
	// BootOnlyInSettings shows the override only on that resource.
	BootOnlyInSettings bool
	// BootFutureState answers OperationSupportedInFutureStateURI on the system and accepts the
	// override at <system>/SD with an ETag (AMI, ASRock).
	BootFutureState bool
	// ETag requires If-Match for PATCH; GzipETag sends ETags with "-gzip" and accepts them only
	// without (iDRAC).
	ETag, GzipETag bool
	// TagInBody has the right ETag in the body and quotes it twice in the header. NoWeakTag refuses
	// weak ETags, which the emulator uses for all resources but the system (Gigabyte).
	TagInBody, NoWeakTag bool
	// WeakTag sends weak ETags and accepts the strong form; WeakByGzip does so for compressed answers.
	// AnyTag sends none and requires If-Match: *.
	WeakTag, WeakByGzip, AnyTag bool
	// NoEthernetInterfaces has no such collection; NetworkAdapters shows the addresses below
	// NetworkInterfaces instead.
	NoEthernetInterfaces bool
	NetworkAdapters      bool
	// ChassisAdapter shows the last address only below NetworkAdapters of the chassis.
	ChassisAdapter bool
	// SlashedWrites redirects writes to paths without a trailing slash with 308 (older Supermicro
	// BMCs).
	SlashedWrites bool
	// BMCInterface shows the server's link to its BMC (DSP2046, ToManager) and a disabled card in
	// EthernetInterfaces, even with NoEthernetInterfaces.
	BMCInterface bool
	// BrokenInterface and BrokenDrive make the first member of the collection answer 500.
	BrokenInterface, BrokenDrive bool
	// SummaryOnly shows temperatures only in the summary of ThermalMetrics.
	SummaryOnly bool
	// Systems is the number of listed systems; 0: 1. Only the first one works.
	Systems int
	// SystemID is the last segment of the system's path; empty: the
	// personality's, or "1".
	SystemID string

	// OnConflicts answers this many On requests after each ForceOff with 409 (iDRAC10).
	OnConflicts int
	// POSTRefusals answers this many changes of the boot override after each boot with 400 "in POST"
	// (Lenovo); with ErrorsByID also changes of BIOS settings and Secure Boot (iLO).
	POSTRefusals int
	// ErrorsByID refuses writes with the ID of a message and no text (iLO).
	ErrorsByID bool
	// BootModeByJob refuses a changed BootSourceOverrideMode or Secure Boot. SettingsByJob keeps BIOS
	// settings pending until a job applies them at the next boot: by @Redfish.SettingsApplyTime in the
	// PATCH, or a POST to the manager's Jobs. While a job waits, settings are refused (Dell).
	BootModeByJob, SettingsByJob bool
	// UpdateNoIfMatch answers 412 to a SimpleUpdate with If-Match (Dell).
	UpdateNoIfMatch bool
	// MediaByPatch has no InsertMedia and EjectMedia; PATCH inserts (Lenovo).
	MediaByPatch bool
	// DumbSlots is the number of slots before the others that have no actions and answer writes with
	// DumbSlotStatus: 405 (OpenBMC), 400 (Cisco), 404 (Lenovo).
	DumbSlots, DumbSlotStatus int
	// KeepImageName still shows Image and ImageName after an eject (Supermicro).
	KeepImageName bool
	// PlainMediaURL refuses image URLs with "&" or "?".
	PlainMediaURL bool
	// NoMediaFlags refuses Inserted and WriteProtected in InsertMedia
	// (Supermicro X11), or in the PATCH (iLO 4).
	NoMediaFlags bool
	// MediaWants are parameters that InsertMedia requires in addition to Image, each refused
	// separately: the first by RelatedProperties, the second by a text, the others by an argument.
	MediaWants []string
	// SlowMedia is how many reads of a slot do not show a new image yet, after a 202 (AMI, on Lenovo's
	// SR635).
	SlowMedia int
	// SlowEject is how many reads of a slot still show the image after an eject, which is answered
	// with 204 (OpenBMC, which removes the USB gadget later).
	SlowEject int
	// OmitDriveState has no Status.State on drives (iLO).
	OmitDriveState bool
	// SwapUUID shows the first three fields of the UUID in the other byte order than SMBIOS; LowerUUID
	// shows it in lower case.
	SwapUUID, LowerUUID bool
	// PasswordPolicy refuses passwords without a digit.
	PasswordPolicy bool
	// LogoutOnPassword ends all sessions when the password changes.
	LogoutOnPassword bool
	// SettingsETag requires If-Match for BIOS settings (AMI, Supermicro).
	SettingsETag bool
	// NoSettingsObject does not link the settings object in Bios, and has it only while something is
	// pending (AMI).
	NoSettingsObject bool
	// WholePending shows all BIOS attributes in the settings object, the pending ones with their new
	// values; otherwise only the pending ones (iLO).
	WholePending bool
	// GzipRegistry always compresses attribute registries (iLO).
	GzipRegistry bool
	// ResetWithoutType refuses a ResetType in Manager.Reset (Supermicro X11).
	ResetWithoutType bool
	// BasicOnly has no session service, only Basic authentication (sushy-tools).
	BasicOnly bool
	// FactoryPassword answers 403 to everything but the account until its password was changed
	// (DSP0266, password change required).
	FactoryPassword bool
	// Expand answers $expand=.($levels=1) with the members of a collection; ExpandLies leaves out a
	// member.
	Expand, ExpandLies bool
	// RegistryNames are deviating names of the BIOS attribute registry.
	RegistryNames RegistryNames
	// FullTableStatus is the answer if all sessions are in use; 0: 400.
	FullTableStatus int
	// DropDoneTasks forgets successful tasks; their jobs stay (Dell).
	DropDoneTasks bool
	// SilentUpdate starts an update without naming a task.
	SilentUpdate bool
	// Transitions shows PoweringOff from a requested shutdown until the machine is off, and PoweringOn
	// at the first read after On (OpenBMC).
	Transitions bool
	// HTTPSMedia refuses image URLs other than https (OpenBMC, which also supports smb).
	HTTPSMedia bool
	// OneTarget requires exactly one target for a multipart push, which may be the manager (OpenBMC).
	OneTarget bool
	// PhysicalCD boots the server's own drive for the target Cd; the virtual one is VCD-DVD in the
	// manager's attributes (Dell).
	PhysicalCD bool
	// SamePowerStatus is the answer if an action requests the current state or restarts a server that
	// is off: 409 (Dell), 400 (HPE); 0: success.
	SamePowerStatus int
}

// RegistryNames are the names of a BIOS attribute registry; empty: the personality's BIOSRegistry.
type RegistryNames struct {
	// Bios is AttributeRegistry of Bios; "-": none.
	Bios string
	// Member is the last segment of the registry file's path, File its Registry, and ID the Id of the
	// registry.
	Member, File, ID string
	// Others are names of further attribute registries.
	Others []string
}

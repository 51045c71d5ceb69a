// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package personality

// Quirks are how a maker reads the standard. They are fixed for the life of a BMC.
type Quirks struct {
	// ResetTypes allowed; empty: all that the emulator knows.
	ResetTypes []string
	// ResetTypesByActionInfo tells them in an ActionInfo resource only.
	ResetTypesByActionInfo bool
	// NoAllowableValues tells them nowhere.
	NoAllowableValues bool
	// NoBootMode has no BootSourceOverrideMode and refuses one (Supermicro X10).
	NoBootMode bool
	// FixedBootMode refuses a change of the mode (some iLO 5).
	FixedBootMode bool
	// ForgetBootMode falls back to Legacy when the override is changed without a
	// mode (Supermicro).
	ForgetBootMode bool
	// NeedEnabled refuses an override without BootSourceOverrideEnabled.
	NeedEnabled bool
	// NeedWholeBoot refuses an override without mode, enabled and target (AMI).
	NeedWholeBoot bool
	// NoTargetNone refuses BootSourceOverrideEnabled with target None (iLO).
	NoTargetNone bool
	// NoEmptyHTTPBootURI refuses a HttpBootUri that is present and empty (iLO).
	// A BMC without a personality always does.
	NoEmptyHTTPBootURI bool
	// BootSettingsURI makes Boot read-only on the system and writable on the
	// resource that @Redfish.Settings names (iDRAC10).
	BootSettingsURI bool
	// BootOnlyInSettings shows the override on that resource only.
	BootOnlyInSettings bool
	// BootFutureState answers OperationSupportedInFutureStateURI on the system
	// and takes the override at <system>/SD with an ETag (AMI, ASRock).
	BootFutureState bool
	// ETag makes If-Match compulsory for PATCH; GzipETag adds "-gzip" to the tag
	// that is sent, but not to the one that is wanted (iDRAC).
	ETag, GzipETag bool
	// TagInBody tells the ETag in the body as it is, and in the header quoted twice, as
	// no PATCH wants it. NoWeakTag refuses weak tags, which are all that the emulator
	// has but for the system (Gigabyte).
	TagInBody, NoWeakTag bool
	// WeakTag shows ETags as weak and wants the strong form; WeakByGzip does so for those
	// who take compressed answers. AnyTag shows none, and wants If-Match: *.
	WeakTag, WeakByGzip, AnyTag bool
	// NoEthernetInterfaces has no such collection; NetworkAdapters shows the
	// addresses below NetworkInterfaces instead.
	NoEthernetInterfaces bool
	NetworkAdapters      bool
	// ChassisAdapter shows the last address below NetworkAdapters of the chassis only.
	ChassisAdapter bool
	// SlashedWrites answers writes to paths without a slash at the end with 308 to those
	// with one (older Supermicros).
	SlashedWrites bool
	// BMCInterface shows the server's link to its BMC (DSP2046, ToManager) and a disabled
	// card among the EthernetInterfaces; alone there with NoEthernetInterfaces.
	BMCInterface bool
	// BrokenInterface and BrokenDrive make the first member of the collection
	// answer 500.
	BrokenInterface, BrokenDrive bool
	// SummaryOnly tells temperatures in the summary of ThermalMetrics only.
	SummaryOnly bool
	// Systems is how many systems the BMC lists; 0 means 1. Only the first is real.
	Systems int
	// SystemID is the last segment of the system's path; empty: the
	// personality's, or "1".
	SystemID string

	// OnConflicts answers so many requests for On after each ForceOff with 409
	// (iDRAC10: right after it).
	OnConflicts int
	// POSTRefusals answers so many changes of the boot override after the start
	// of each boot with 400, because the system is "in POST" (Lenovo); with
	// ErrorsByID changes of BIOS settings and Secure Boot too (iLO).
	POSTRefusals int
	// ErrorsByID answers refused writes with the ID of a message and no text (iLO).
	ErrorsByID bool
	// BootModeByJob refuses BootSourceOverrideMode and Secure Boot where they
	// would change; SettingsByJob keeps BIOS settings pending, without effect,
	// until a job takes them to the next boot: by @Redfish.SettingsApplyTime in
	// the PATCH, or a POST to the manager's Jobs. While a job waits, settings are
	// refused (Dell).
	BootModeByJob, SettingsByJob bool
	// UpdateNoIfMatch answers a SimpleUpdate that carries If-Match with 412 (Dell).
	UpdateNoIfMatch bool
	// MediaByPatch has no InsertMedia and EjectMedia: PATCH inserts (Lenovo).
	MediaByPatch bool
	// DumbSlots is how many slots come before the others, without actions, and
	// answer writes with DumbSlotStatus: 405 (OpenBMC), 400 (Cisco), 404 (Lenovo).
	DumbSlots, DumbSlotStatus int
	// KeepImageName leaves Image and ImageName as they were after an eject
	// (Supermicro).
	KeepImageName bool
	// PlainMediaURL refuses image URLs with "&" or "?".
	PlainMediaURL bool
	// NoMediaFlags refuses Inserted and WriteProtected in InsertMedia
	// (Supermicro X11), or in the PATCH (iLO 4).
	NoMediaFlags bool
	// MediaWants are the parameters that InsertMedia wants next to Image, each refused alone:
	// the first by RelatedProperties, the second by a text, the others by an argument.
	MediaWants []string
	// SlowMedia is how many reads of a slot do not show an insert yet, which is
	// answered by 202 (AMI, on Lenovo's SR635).
	SlowMedia int
	// SlowEject is how many reads of a slot still show the image after an eject, which is
	// answered by 204 all the same (OpenBMC, whose USB gadget goes later).
	SlowEject int
	// OmitDriveState has no Status.State on drives (iLO).
	OmitDriveState bool
	// SwapUUID tells the first three fields of the UUID in the other byte order
	// than SMBIOS; LowerUUID tells it in lower case.
	SwapUUID, LowerUUID bool
	// PasswordPolicy refuses passwords without a digit.
	PasswordPolicy bool
	// LogoutOnPassword ends all sessions when the password changes.
	LogoutOnPassword bool
	// SettingsETag makes If-Match compulsory for BIOS settings (AMI, Supermicro).
	SettingsETag bool
	// NoSettingsObject names no settings object in Bios, and shows it only while something
	// is pending (AMI).
	NoSettingsObject bool
	// WholePending shows all BIOS attributes in the settings object, the pending
	// ones with their new values; otherwise it shows only the pending ones (iLO).
	WholePending bool
	// GzipRegistry sends attribute registries compressed, asked or not (iLO).
	GzipRegistry bool
	// ResetWithoutType refuses a ResetType in Manager.Reset (Supermicro X11).
	ResetWithoutType bool
	// BasicOnly has no session service: Basic authentication is all there is (sushy-tools).
	BasicOnly bool
	// FactoryPassword answers 403 to all but the account until its password was changed
	// (DSP0266, password change required).
	FactoryPassword bool
	// Expand answers $expand=.($levels=1) with the members of a collection; ExpandLies
	// offers it and leaves out a member.
	Expand, ExpandLies bool
	// RegistryNames is how the places that name the BIOS attribute registry differ.
	RegistryNames RegistryNames
	// FullTableStatus is answered when the session table is full; 0 means 400.
	FullTableStatus int
	// DropDoneTasks forgets tasks that have ended well; the job behind them stays
	// (Dell).
	DropDoneTasks bool
	// SilentUpdate starts an update without telling a task.
	SilentUpdate bool
	// Transitions tells PoweringOff from the request to shut down until the machine is off,
	// and PoweringOn at the first read after an On (OpenBMC).
	Transitions bool
	// HTTPSMedia refuses image URLs that are not https (OpenBMC, which has smb beside it).
	HTTPSMedia bool
	// OneTarget refuses images in parts for any other number of targets than one, which may be
	// the manager (OpenBMC).
	OneTarget bool
	// PhysicalCD boots the server's own drive for the target Cd; the virtual one is
	// VCD-DVD of the manager's attributes (Dell).
	PhysicalCD bool
	// SamePowerStatus is answered when an action wants the state that the machine
	// has, or a restart of one that is off: 409 (Dell), 400 (HPE); 0: nothing.
	SamePowerStatus int
}

// RegistryNames are the names of a BIOS attribute registry; empty: all are the personality's
// BIOSRegistry.
type RegistryNames struct {
	// Bios is AttributeRegistry of Bios; "-": it has none.
	Bios string
	// Member is the last segment of the registry file's path, File its Registry, and ID the
	// Id of the registry itself.
	Member, File, ID string
	// Others are the names of further registries of attributes.
	Others []string
}

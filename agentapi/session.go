// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import (
	"fmt"
	"time"
)

// Paths of the agent API on the manager's agent port.
const (
	PathSession   = "/agent/v1/session"
	PathOrder     = "/agent/v1/order"
	PathProgress  = "/agent/v1/progress"
	PathBootstrap = "/agent/v1/bootstrap"
	PathReport    = "/agent/v1/report"
	PathBooted    = "/agent/v1/booted"
	// PathLive returns the kernel command line for a live system that the agent has loaded.
	PathLive = "/agent/v1/live"
)

// PathLiveData is the prefix of a live system's data URLs. The token and a file name
// (LiveUserData and so on) follow. Unlike the agent API it uses GET, and no TLS if the order
// says so.
const PathLiveData = "/live/v1/"

// Files below a live system's URL, named as by cloud-init's NoCloud datasource.
const (
	LiveUserData      = "user-data"
	LiveMetaData      = "meta-data"
	LiveVendorData    = "vendor-data"
	LiveNetworkConfig = "network-config"
)

// MaxCommandLine bounds a kernel command line, in bytes. x86 Linux allows 2048 with the
// terminator (COMMAND_LINE_SIZE), and rejects or truncates longer ones.
const MaxCommandLine = 2047

// Kernel arguments of a network boot.
const (
	// ArgServer is host:port of the agent API.
	ArgServer = "ingot.server"
	// ArgFiles is the base URL (http://host:port) of the boot server, which caches images.
	ArgFiles = "ingot.files"
	// ArgPin holds one or two comma-separated pins, "sha256/<base64url, no padding>",
	// of the SubjectPublicKeyInfo of the manager's current and next TLS key (I15).
	ArgPin = "ingot.pin"
	// ArgToken is the session token (see Token).
	ArgToken = "ingot.token"
	// ArgMAC is the MAC address of the boot NIC.
	ArgMAC = "ingot.mac"
)

// TokenHeader is the HTTP header with the token: "Authorization: Bearer <token>". The
// agent's ephemeral key is that of its TLS client certificate.
const TokenHeader = "Authorization"

// Limits of request bodies, in bytes. The server refuses larger ones with ReasonTooLarge
// before it parses them. It may refuse 64 KiB and more for calls without hardware lists
// (all except PathSession and PathReport).
const (
	MaxRequestBytes   = 1 << 20
	MaxBootstrapBytes = 1 << 20
)

type OrderKind string

const (
	// Inspect reads the hardware and writes nothing.
	Inspect OrderKind = "Inspect"
	// Install writes an image to the root disk and seeds the first boot.
	Install OrderKind = "Install"
	// Clean cleans the disks that the order names.
	Clean OrderKind = "Clean"
	// Discover is the only order for the agent of an unknown server. The agent does nothing
	// more: the session request contained the hardware.
	Discover OrderKind = "Discover"
)

// SessionRequest opens a session. The token (in the header) and the TLS client key identify
// the agent. The first key that uses a token owns it (I14).
type SessionRequest struct {
	// BootID is a random identifier of this boot of the agent. It distinguishes a retry
	// (same boot) from a restart.
	BootID  string `json:"bootID"`
	Version string `json:"version"`
	// Hardware is the current hardware. Identity checks (I8) and root disk selection (I12)
	// use these facts instead of older ones.
	Hardware Hardware `json:"hardware"`
}

type Session struct {
	// Now is the manager's time, to which the agent sets system clock and RTC (I15).
	Now time.Time `json:"now"`
	// Host is "<namespace>/<name>", for display.
	Host string `json:"host"`
	// ProgressInterval is the minimum time between two Progress calls of one step, and the
	// maximum time without a call, so that the agent learns soon that it must stop. Unchanged
	// Progress is no proof that the work advances.
	ProgressInterval Duration `json:"progressInterval"`
}

type OrderRequest struct {
	BootID string `json:"bootID"`
}

// Order is the agent's task, decided after a live read of the host (I5).
type Order struct {
	Kind OrderKind `json:"kind"`
	// ID identifies this order. InstanceID and Attempt identify the instance and the install
	// to which it belongs; they are empty and 0 for Inspect of a free host.
	ID         string `json:"id"`
	InstanceID string `json:"instanceID,omitempty"`
	Attempt    int32  `json:"attempt,omitempty"`
	// Install is set for Install, Clean for Clean.
	Install *InstallOrder `json:"install,omitempty"`
	Clean   *CleanOrder   `json:"clean,omitempty"`
}

// InstallOrder specifies an image and where to write it.
type InstallOrder struct {
	// ImageURL is an http URL, or a path on the boot server (ArgFiles).
	ImageURL string `json:"imageURL"`
	// Checksum of the source file, "sha256:<hex>" or "sha512:<hex>".
	Checksum string `json:"checksum"`
	// Compression of the source: "none", "gzip", "xz" or "zstd". Empty: detected by magic
	// bytes.
	Compression string `json:"compression,omitempty"`
	// Format of the disk image inside: "raw" or "qcow2". Empty: "raw".
	Format string `json:"format,omitempty"`
	// RootDisk is the disk to write. The agent refuses the order unless exactly one disk
	// matches (I12).
	RootDisk DiskRef `json:"rootDisk"`
	// MirrorDisks are the other members of a software RAID 1, each matched as RootDisk is.
	// Empty: the image is written to RootDisk alone.
	MirrorDisks []DiskRef `json:"mirrorDisks,omitempty"`
	// ReleasedInstances are other instances whose disks may be overwritten (I8). InstanceID
	// is always allowed.
	ReleasedInstances []string `json:"releasedInstances,omitempty"`
	// RejectedAttempts are attempts of this instance whose success the manager rejected. The
	// agent adopts a disk that any other attempt of this instance completed, and does not
	// write it again (I21).
	RejectedAttempts []int32 `json:"rejectedAttempts,omitempty"`
	// Live is set if a live system is started that installs itself. Of the fields above only
	// RootDisk and ReleasedInstances then count.
	Live *LiveOrder `json:"live,omitempty"`
}

// LiveOrder names the live system to start.
type LiveOrder struct {
	Kernel LiveFile `json:"kernel"`
	Initrd LiveFile `json:"initrd"`
}

// LiveFile is a file of a live system, as ImageURL and Checksum describe an image.
type LiveFile struct {
	URL      string `json:"url"`
	Checksum string `json:"checksum"`
}

// LiveRequest asks for the command line once the files are loaded and verified.
type LiveRequest struct {
	OrderID string `json:"orderID"`
}

// LiveBoot is the command line of the live system. The URL in it expires soon and returns
// its data once (I16).
type LiveBoot struct {
	CommandLine Sensitive `json:"commandLine"`
}

// Cleaning modes.
const (
	// CleanMetadata removes partition tables and signatures.
	CleanMetadata = "Metadata"
	// CleanFull erases the content by the best method of each disk.
	CleanFull = "Full"
)

type CleanOrder struct {
	// Mode of cleaning: CleanMetadata or CleanFull.
	Mode string `json:"mode"`
	// Modes are the modes of the single disks, in the order of Disks. Empty: Mode for all.
	Modes []string `json:"modes,omitempty"`
	// Disks to clean. The agent touches no other disk.
	Disks []DiskRef `json:"disks"`
	// ReleasedInstances are other instances whose markers may be removed (I8). InstanceID is
	// always allowed.
	ReleasedInstances []string `json:"releasedInstances,omitempty"`
	// JournalKey authenticates the journal on the disk by which an overwrite resumes. It is
	// the same for all attempts to clean up after one instance. No installed system ever gets
	// it. Empty: each attempt starts from the beginning.
	JournalKey Sensitive `json:"journalKey,omitempty"`
}

// DiskRef identifies one disk by properties that survive a reboot. Every field that is set
// must match.
type DiskRef struct {
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	// Path is a bus path like udev's by-path names ("pci-0000:00:04.0"), never a kernel name.
	// It is set for disks without serial and WWN, and in a CleanOrder also for disks that
	// serial and WWN do not distinguish.
	Path string `json:"path,omitempty"`
	// SizeBytes detects a replaced disk.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

func (r DiskRef) IsZero() bool { return r == DiskRef{} }

// HeaderImageProblem is the header in a boot server's answers about an image that it cannot
// fetch, even while it retries. Its value is one line without the image's URL.
const HeaderImageProblem = "Ingot-Image-Problem"

// Step is a stage of an order, for progress bars and timelines.
type Step string

// The steps, in their sequence.
const (
	StepStarted Step = "Started"
	// StepAwaitImage: the boot server is still fetching the image.
	StepAwaitImage Step = "AwaitingImage"
	StepInspect    Step = "Inspecting"
	StepWrite      Step = "Writing"
	StepVerify     Step = "Verifying"
	StepSeed       Step = "Seeding"
	// StepMirror: the members of a mirror are compared, and changes by the first-boot data
	// are copied.
	StepMirror Step = "Mirroring"
	StepClean  Step = "Cleaning"
	// StepLoad: the files of a live system are fetched. StepLive: it is being started.
	StepLoad Step = "Loading"
	StepLive Step = "StartingLiveSystem"
)

// Progress reports the state of the work.
type Progress struct {
	OrderID string `json:"orderID"`
	Step    Step   `json:"step"`
	// Percent of the step, 0..100; it stays 0 if the total is unknown. Bytes done in this
	// step.
	Percent int32 `json:"percent"`
	Bytes   int64 `json:"bytes,omitempty"`
	// Seconds for which a disk has been erasing itself (it stops when the disk exceeds its
	// estimate by far), or for which the boot server or the manager has been asking the agent
	// to wait, in whole minutes.
	Seconds int64 `json:"seconds,omitempty"`
}

type ProgressReply struct {
	// Stop: the order no longer holds. The agent stops writing and powers off.
	Stop bool `json:"stop,omitempty"`
}

// BootstrapRequest asks for the bootstrap data at the end of an install.
type BootstrapRequest struct {
	OrderID string `json:"orderID"`
	// VerifiedChecksum is the checksum of the image that the agent has written and verified
	// in this session. The manager gives the data for the claim's image only.
	VerifiedChecksum string `json:"verifiedChecksum"`
}

// The formats of user data (Cluster API, key "format" of a bootstrap Secret).
const (
	FormatCloudConfig = "cloud-config"
	FormatIgnition    = "ignition"
)

// Bootstrap is the first-boot data for cloud-init's NoCloud datasource, or for Ignition,
// which uses only the user data. It is written to the installed disk and stored nowhere else
// (I15).
type Bootstrap struct {
	// Format of the user data: FormatCloudConfig or FormatIgnition. Empty: FormatCloudConfig.
	Format     string    `json:"format,omitempty"`
	UserData   Sensitive `json:"userData"`
	MetaData   string    `json:"metaData"`
	VendorData Sensitive `json:"vendorData"`
	// NetworkConfig is cloud-init's network configuration, version 2. Empty: the system
	// configures its network itself.
	NetworkConfig string `json:"networkConfig,omitempty"`
}

type Outcome string

const (
	Succeeded Outcome = "Succeeded"
	Failed    Outcome = "Failed"
)

// Reasons of a failed install that the image, or another choice of the machine, causes. The
// server is usable for other machines: the manager does not count these failures against the
// host.
const (
	// FailureImageUnavailable: The boot server cannot fetch the image, or does not have it after
	// two hours. The failure does not count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Check that the nodes of ingot-boot reach the URL, that --image-sources allows
	// it, and that the image cache has space.
	FailureImageUnavailable = "ImageUnavailable"
	// FailureImageInvalid: The image does not have the declared format, has no usable file system
	// for the first-boot data, or cannot assemble its mirror. The failure does not count against
	// the host.
	// +ingot:category=Installation
	// +ingot:remedy=Correct the image or image.format as the message says, then create a new
	// template.
	FailureImageInvalid = "ImageInvalid"
	// FailureChecksumMismatch: The file does not have the checksum of the order. The failure does
	// not count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Create a template with the right checksum, or restore the file. If the message
	// contains newer-agent-needed, update the host's boot media.
	FailureChecksumMismatch = "ChecksumMismatch"
	// FailureLiveRefused: The agent's kernel does not start the live system: it is too large, for
	// another architecture, or not signed for Secure Boot.
	// +ingot:category=Installation
	// +ingot:remedy=Correct live.kernel, live.commandLine or hostSelector as the message says, or
	// update the host's boot media.
	FailureLiveRefused = "LiveSystemRefused"
	// FailureMirrorRefused: The two disks of softwareRAID cannot form one array. The failure does
	// not count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Choose two equal disks by softwareRAID.members or rootDeviceHints.
	FailureMirrorRefused = "MirrorRefused"
	// FailureDiskTooSmall: The decoded image does not fit on the chosen disk. The failure does not
	// count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Create a template that selects a larger disk or has a smaller image. If other
	// hosts have larger disks, delete the Machine.
	FailureDiskTooSmall = "DiskTooSmall"
	// FailureSectorsDiffer: The partition table of the image is for another sector size than the
	// disk has. The failure does not count against the host.
	// +ingot:category=Installation
	// +ingot:remedy=Use an image for this sector size, or select disks or hosts with the other
	// sector size.
	FailureSectorsDiffer = "SectorsDiffer"
	// FailureOldSystem: Another disk holds the complete system of a released instance, which could
	// boot instead of the new one. Nothing was written.
	// +ingot:category=Installation
	// +ingot:remedy=Select that disk by rootDeviceHints. Or set spec.cleaning of the host to
	// Metadata, delete the Machine, and delete its successor on this host once more.
	FailureOldSystem = "OldSystemOnDisk"
)

// FailureDiskNotFound: A disk that the order needs, or that the host is known to have, is missing.
// +ingot:category=Inventory
// +ingot:remedy=Check the disk in the message, its cable and controller. Set the annotation
// inspect when the host is free.
const FailureDiskNotFound = "DiskNotFound"

// Report ends an order. The agent repeats it until it is acknowledged (I4).
type Report struct {
	OrderID string  `json:"orderID"`
	Outcome Outcome `json:"outcome"`
	// Reason is CamelCase and stable, Message is for display; both are set for Failed only.
	// Neither contains bootstrap data, a token or a URL with credentials.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// CleanedDisks are the cleaned disks (Clean). RootDisk is the disk written and BytesWritten
	// the size of the decoded image (Install).
	CleanedDisks []DiskRef `json:"cleanedDisks,omitempty"`
	RootDisk     *DiskRef  `json:"rootDisk,omitempty"`
	// MirrorDisks are the other members of the mirror, as ordered. Agents without support for
	// mirrors leave it empty.
	MirrorDisks  []DiskRef `json:"mirrorDisks,omitempty"`
	BytesWritten int64     `json:"bytesWritten,omitempty"`
	// AdoptedAttempt is the attempt whose complete disk the agent found and kept (Install).
	// 0: the agent wrote the image.
	AdoptedAttempt int32 `json:"adoptedAttempt,omitempty"`
	// Cleaned describes the cleaning of each of CleanedDisks, in the same order.
	Cleaned []CleanedDisk `json:"cleaned,omitempty"`
}

type CleanedDisk struct {
	Disk DiskRef `json:"disk"`
	// Mode is the cleaning mode. Method is the erase method (package agent/erase), or
	// CleanMetadata.
	Mode   string `json:"mode"`
	Method string `json:"method"`
	// ErasedBytes is the amount erased, VerifiedBytes the amount read back.
	ErasedBytes   int64 `json:"erasedBytes"`
	VerifiedBytes int64 `json:"verifiedBytes"`
	// FailedMethods names better methods that failed, with the causes.
	FailedBefore string `json:"failedMethods,omitempty"`
}

// Action is what the agent does after its report is acknowledged.
type Action string

const (
	// StartLive starts the loaded live system. The manager never sends it, since nothing is
	// committed yet (I4).
	StartLive Action = "StartLive"
	// BootDisk reboots into the installed disk. The manager sends it only after it has
	// written state=Provisioned (I4).
	BootDisk Action = "BootDisk"
	PowerOff Action = "PowerOff"
	// Restart leaves an unknown server unchanged: the boot server does not answer it again,
	// and the server boots whatever follows in its boot order.
	Restart Action = "Restart"
)

type Acknowledgement struct {
	Action Action `json:"action"`
}

// Booted is the report of the installed system after its first boot.
type Booted struct {
	InstanceID string `json:"instanceID"`
	Hostname   string `json:"hostname"`
	// Addresses of the interfaces, IPv4 and IPv6, without prefix length; link-local
	// and loopback ones are dropped by the manager.
	Addresses []string `json:"addresses"`
	// BootID is /proc/sys/kernel/random/boot_id.
	BootID string `json:"bootID"`
	// Interrupted: the first boot ended before cloud-init did. In this later boot cloud-init
	// does not repeat what it had begun.
	Interrupted bool `json:"interrupted,omitempty"`
	// Sentinel reports whether /run/cluster-api/bootstrap-success.complete existed when
	// cloud-init ended in the first boot. Bootstrap providers create it on success (Cluster
	// API contract). Nil: unknown, for example without cloud-init.
	Sentinel *bool `json:"sentinel,omitempty"`
}

type BootedReply struct {
	Accepted bool `json:"accepted"`
}

// Reason of a refusal: stable, CamelCase, equal to the event's reason.
type Reason string

const (
	// ReasonTokenInvalid: the token is unknown, damaged, expired, or for another operation.
	ReasonTokenInvalid Reason = "AgentTokenInvalid"
	// ReasonKeyConflict: another key already owns this order. Both are revoked (I14).
	ReasonKeyConflict Reason = "AgentKeyConflict"
	// ReasonOrderGone: the order ended or changed. The agent powers off.
	ReasonOrderGone Reason = "OrderGone"
	// ReasonHardwareMismatch: the server is not the one registered (I8).
	ReasonHardwareMismatch Reason = "HardwareMismatch"
	// ReasonNotReady: retry later (no bootstrap data yet, API conflict).
	ReasonNotReady Reason = "NotReady"
	// ReasonPaused: nothing may act on the host now (I10). A working agent stops writing,
	// waits, asks for its order again, and starts from the beginning once it gets one.
	ReasonPaused Reason = "Paused"
	// ReasonBadRequest and ReasonTooLarge: the request itself is invalid.
	ReasonBadRequest Reason = "BadRequest"
	ReasonTooLarge   Reason = "TooLarge"
)

// Error is the body of every answer that is not 200.
type Error struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// RetryAfter is set if a retry may succeed.
	RetryAfter Duration `json:"retryAfter,omitempty"`
	// Action is BootDisk if the agent was booted for an install that is already committed, for
	// example by a boot server with outdated state: the installed system must not stay off (I4,
	// I5). Only an agent without an order may follow it. Empty: power off.
	Action Action `json:"action,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

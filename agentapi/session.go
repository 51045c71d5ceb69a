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
	// PathLive tells an agent the command line of the live system that it has loaded.
	PathLive = "/agent/v1/live"
)

// PathLiveData is what the addresses that a live system is given begin with: token and
// name of the file follow (LiveUserData and so on). Other than the agent API it is asked
// by GET, and, where the order says so, without TLS.
const PathLiveData = "/live/v1/"

// The files below a live system's address, as cloud-init's NoCloud datasource names them.
const (
	LiveUserData      = "user-data"
	LiveMetaData      = "meta-data"
	LiveVendorData    = "vendor-data"
	LiveNetworkConfig = "network-config"
)

// MaxCommandLine bounds a kernel's command line, in bytes: x86 Linux takes 2048 with
// its terminator (COMMAND_LINE_SIZE) and refuses, or cuts off, what is longer.
const MaxCommandLine = 2047

// Kernel arguments by which a network boot tells the agent where to go.
const (
	// ArgServer is host:port of the agent API, and ArgFiles the base URL
	// (http://host:port) of the boot server, where images are cached.
	ArgServer = "ingot.server"
	ArgFiles  = "ingot.files"
	// ArgPin holds one or two comma-separated pins, "sha256/<base64url, no padding>",
	// of the SubjectPublicKeyInfo of the manager's current and next TLS key (I15).
	ArgPin = "ingot.pin"
	// ArgToken is the session token (see Token).
	ArgToken = "ingot.token"
	// ArgMAC is the boot MAC address: which NIC to use.
	ArgMAC = "ingot.mac"
)

// TokenHeader carries the token in every request: "Authorization: Bearer <token>".
// The agent's ephemeral key is the key of its TLS client certificate.
const TokenHeader = "Authorization"

// Limits on request bodies, in bytes. The server refuses larger ones with
// ReasonTooLarge before it parses them. Calls that carry no lists of hardware (all but
// PathSession and PathReport) may be refused from 64 KiB on.
const (
	MaxRequestBytes   = 1 << 20
	MaxBootstrapBytes = 1 << 20
)

// OrderKind is what an agent is sent to do.
type OrderKind string

// The kinds of order.
const (
	// Inspect reads the hardware and writes nothing.
	Inspect OrderKind = "Inspect"
	// Install writes an image to the root disk and seeds the first boot.
	Install OrderKind = "Install"
	// Wipe removes partition tables and signatures of the disks named.
	Wipe OrderKind = "Wipe"
	// Discover is all that the agent of an unknown server is ever told: nothing is
	// done, the hardware went with the session request.
	Discover OrderKind = "Discover"
)

// SessionRequest opens a session. The token (in the header) and the TLS client
// key identify the agent; the first key to come wins (I14).
type SessionRequest struct {
	// BootID is a random identifier of this boot of the agent, so that the
	// manager can tell a retry (same boot) from a restart (another boot).
	BootID string `json:"bootID"`
	// Version of the agent, for people.
	Version string `json:"version"`
	// Hardware as found now. Identity checks (I8) and root disk selection (I12)
	// use these facts and not older ones.
	Hardware Hardware `json:"hardware"`
}

// Session is the answer to a SessionRequest.
type Session struct {
	// Now is the manager's clock: the agent sets system clock and RTC from it (I15).
	Now time.Time `json:"now"`
	// Host is "<namespace>/<name>", for people.
	Host string `json:"host"`
	// ProgressInterval is the least time between two Progress calls of one step, and
	// the longest that the agent goes without one: so it hears soon that it is to
	// stop. Progress that tells nothing new is no sign that the work goes on.
	ProgressInterval Duration `json:"progressInterval"`
}

// OrderRequest asks what to do.
type OrderRequest struct {
	BootID string `json:"bootID"`
}

// Order is what the agent is to do, given after a live read of the host (I5).
type Order struct {
	Kind OrderKind `json:"kind"`
	// ID names this order; InstanceID and Attempt the life and the install it
	// belongs to (empty and 0 for Inspect of a free host).
	ID         string `json:"id"`
	InstanceID string `json:"instanceID,omitempty"`
	Attempt    int32  `json:"attempt,omitempty"`
	// Install is set for Install, Wipe for Wipe.
	Install *InstallOrder `json:"install,omitempty"`
	Wipe    *WipeOrder    `json:"wipe,omitempty"`
}

// InstallOrder says what to write where.
type InstallOrder struct {
	// ImageURL is where the image comes from: an http URL, or a path on the boot
	// server that the agent was booted from (ArgFiles).
	ImageURL string `json:"imageURL"`
	// Checksum of the source file, "sha256:<hex>" or "sha512:<hex>".
	Checksum string `json:"checksum"`
	// Compression of the source: "none", "gzip", "xz" or "zstd"; empty: by magic bytes.
	Compression string `json:"compression,omitempty"`
	// Format of the disk image inside: "raw" or "qcow2"; empty: "raw".
	Format string `json:"format,omitempty"`
	// RootDisk is the disk to write: matched by every field that is set, and
	// refused when not exactly one disk matches (I12).
	RootDisk DiskRef `json:"rootDisk"`
	// MirrorDisks are the other members of a software RAID 1 that the image is installed
	// on, each matched as RootDisk is; empty: the image is written to RootDisk alone.
	MirrorDisks []DiskRef `json:"mirrorDisks,omitempty"`
	// Markers of other instances that the ledger has released, so that their
	// disks may be overwritten (I8). InstanceID itself is always allowed.
	ReleasedInstances []string `json:"releasedInstances,omitempty"`
	// Live is set where no image is written: a system is started that installs itself. Of
	// the fields above RootDisk and ReleasedInstances then hold.
	Live *LiveOrder `json:"live,omitempty"`
}

// LiveOrder names the system to start.
type LiveOrder struct {
	Kernel LiveFile `json:"kernel"`
	Initrd LiveFile `json:"initrd"`
}

// LiveFile is one of its files, as ImageURL and Checksum of an image.
type LiveFile struct {
	URL      string `json:"url"`
	Checksum string `json:"checksum"`
}

// LiveRequest asks for the command line, once the files are in memory and verified.
type LiveRequest struct {
	OrderID string `json:"orderID"`
}

// LiveBoot is what the live system is started with. The address in it expires soon, and
// what it leads to is given once (I16).
type LiveBoot struct {
	CommandLine Sensitive `json:"commandLine"`
}

// The modes of cleaning.
const (
	// WipeMetadata removes partition tables and signatures.
	WipeMetadata = "Metadata"
	// WipeFull erases the content, by the best means that each disk has.
	WipeFull = "Full"
)

// WipeOrder says which disks to clean.
type WipeOrder struct {
	// Mode of cleaning: WipeMetadata or WipeFull.
	Mode string `json:"mode"`
	// Modes are those of single disks, in the order of Disks; empty: Mode for all.
	Modes []string `json:"modes,omitempty"`
	// Disks to clean; a disk that is not named is not touched.
	Disks []DiskRef `json:"disks"`
	// ReleasedInstances are other instances whose markers may be removed (I8), as
	// in InstallOrder. The order's own InstanceID is always allowed.
	ReleasedInstances []string `json:"releasedInstances,omitempty"`
	// JournalKey is the secret under which the agent notes on a disk how far it has
	// overwritten it, the same for every attempt to clean up after one instance. No
	// system that is installed ever sees it. Empty: each attempt begins anew.
	JournalKey Sensitive `json:"journalKey,omitempty"`
}

// DiskRef names one disk by what does not change over a reboot. Every field
// that is set must match.
type DiskRef struct {
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	// Path is the last resort for disks without serial and WWN, and in a WipeOrder for
	// those that these do not tell apart: a /dev/disk/by-path style bus path
	// ("pci-0000:00:04.0"), never a kernel name.
	Path string `json:"path,omitempty"`
	// SizeBytes guards against a swapped disk.
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// IsZero says whether the reference names nothing.
func (r DiskRef) IsZero() bool { return r == DiskRef{} }

// HeaderImageProblem is set in a boot server's answers about an image that it cannot fetch:
// what is wrong, in a line without the image's URL, also while it tries again.
const HeaderImageProblem = "Ingot-Image-Problem"

// Step is where an agent is in its order, for progress bars and timelines.
type Step string

// The steps of the orders, in the order in which they occur.
const (
	StepStarted Step = "Started"
	// StepAwaitImage: the boot server fetches the image first.
	StepAwaitImage Step = "AwaitingImage"
	StepInspect    Step = "Inspecting"
	StepWrite      Step = "Writing"
	StepVerify     Step = "Verifying"
	StepSeed       Step = "Seeding"
	// StepMirror: the members of a mirror are compared, and what the seed changed on one
	// is copied.
	StepMirror    Step = "Mirroring"
	StepWipe      Step = "Wiping"
	StepReporting Step = "Reporting"
	// StepLoad: the files of a live system are fetched; StepLive: it is being started.
	StepLoad Step = "Loading"
	StepLive Step = "StartingLiveSystem"
)

// Progress tells how far the work is.
type Progress struct {
	OrderID string `json:"orderID"`
	Step    Step   `json:"step"`
	// Percent of the step, 0..100, which stays 0 where the length of what is fetched is not
	// known; Bytes done so far in this step.
	Percent int32 `json:"percent"`
	Bytes   int64 `json:"bytes,omitempty"`
	// Seconds for which a disk has been erasing itself, which may be hours without any
	// other news; it stands still when the disk takes much longer than it said. Or for
	// which the agent has been told to wait, by the boot server, which fetches the image,
	// or by the manager, in whole minutes.
	Seconds int64 `json:"seconds,omitempty"`
}

// ProgressReply may call the agent off.
type ProgressReply struct {
	// Stop: the order no longer holds; the agent stops writing and powers off.
	Stop bool `json:"stop,omitempty"`
}

// BootstrapRequest asks for the bootstrap data, at the end of an install.
type BootstrapRequest struct {
	OrderID string `json:"orderID"`
	// VerifiedChecksum is that of the image which the agent has written in this session and
	// whose checksum it has verified. The manager gives the data for the claim's image only.
	VerifiedChecksum string `json:"verifiedChecksum"`
}

// The formats of user data (Cluster API, key "format" of a bootstrap Secret).
const (
	FormatCloudConfig = "cloud-config"
	FormatIgnition    = "ignition"
)

// Bootstrap is the seed of the first boot, for cloud-init's NoCloud datasource or for
// Ignition, which takes the user data alone. It is written to the installed disk and
// kept nowhere else (I15).
type Bootstrap struct {
	// Format of the user data: FormatCloudConfig or FormatIgnition; empty: the former.
	Format     string    `json:"format,omitempty"`
	UserData   Sensitive `json:"userData"`
	MetaData   string    `json:"metaData"`
	VendorData Sensitive `json:"vendorData"`
	// NetworkConfig is cloud-init's network configuration, version 2. Empty: the system
	// finds its own.
	NetworkConfig string `json:"networkConfig,omitempty"`
}

// Outcome of an order.
type Outcome string

// The outcomes.
const (
	Succeeded Outcome = "Succeeded"
	Failed    Outcome = "Failed"
)

// The reasons of a failed install for which the image is to blame, or what else the machine
// asks for, and not the server, which is a good one for others. The manager does not hold
// them against the host.
const (
	// FailureImageUnavailable: the source has answered that it does not give the image.
	FailureImageUnavailable = "ImageUnavailable"
	// FailureImageInvalid: it cannot be decoded, or has content at the marker's place, or
	// has no file system that takes the seed, or it is to be on a mirror, which its system
	// could not assemble.
	FailureImageInvalid = "ImageInvalid"
	// FailureChecksumMismatch: the source is not what the order names.
	FailureChecksumMismatch = "ChecksumMismatch"
	// FailureLiveRefused: the agent's kernel does not start the live system, as one that
	// is for another architecture or, under Secure Boot, not signed; or it is too large.
	FailureLiveRefused = "LiveSystemRefused"
	// FailureMirrorRefused: the disks that were chosen cannot be one mirror. Each is good.
	FailureMirrorRefused = "MirrorRefused"
	// FailureDiskTooSmall: the decoded image does not fit on the disk that was chosen, which
	// is good for another.
	FailureDiskTooSmall = "DiskTooSmall"
	// FailureSectorsDiffer: the image's partition table is for disks whose sectors have
	// another size than those of the disk that was chosen. Both are good.
	FailureSectorsDiffer = "SectorsDiffer"
	// FailureOldSystem: another disk than those that were chosen holds the complete system of
	// a released instance, which would boot next to the new one.
	FailureOldSystem = "OldSystemOnDisk"
)

// FailureDiskNotFound: a disk that the order needs, or that is known of the server, is
// not there.
const FailureDiskNotFound = "DiskNotFound"

// Report ends an order. Until it is acknowledged it is repeated (I4).
type Report struct {
	OrderID string  `json:"orderID"`
	Outcome Outcome `json:"outcome"`
	// Reason is CamelCase and stable, Message for people; both for Failed only.
	// Neither holds bootstrap data, a token or a URL with credentials.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// WipedDisks are the disks cleaned (Wipe); RootDisk the disk written and
	// BytesWritten the size of the decoded image (Install).
	WipedDisks []DiskRef `json:"wipedDisks,omitempty"`
	RootDisk   *DiskRef  `json:"rootDisk,omitempty"`
	// MirrorDisks are the other members of the mirror that was made, as ordered. An agent
	// that does not know of mirrors reports none.
	MirrorDisks  []DiskRef `json:"mirrorDisks,omitempty"`
	BytesWritten int64     `json:"bytesWritten,omitempty"`
	// Cleaned says what was done to each of WipedDisks, in the same order.
	Cleaned []CleanedDisk `json:"cleaned,omitempty"`
}

// CleanedDisk is what was done to one disk.
type CleanedDisk struct {
	Disk DiskRef `json:"disk"`
	// Mode of cleaning, and the Method by which the content was erased (package
	// agent/erase), or WipeMetadata again.
	Mode   string `json:"mode"`
	Method string `json:"method"`
	// ErasedBytes are those whose old content is gone, VerifiedBytes were read back.
	ErasedBytes   int64 `json:"erasedBytes"`
	VerifiedBytes int64 `json:"verifiedBytes"`
	// FailedBefore names better methods that failed, and why.
	FailedBefore string `json:"failedBefore,omitempty"`
}

// Action is what the agent does after its report is acknowledged.
type Action string

// The actions.
const (
	// StartLive ends the agent in the live system that it has loaded. No answer of the
	// manager's says it: nothing is committed yet (I4).
	StartLive Action = "StartLive"
	// BootDisk reboots into the installed disk: only ever sent after the write
	// state=Provisioned (I4).
	BootDisk Action = "BootDisk"
	// PowerOff ends the boot.
	PowerOff Action = "PowerOff"
	// Restart leaves an unknown server as it was found: the boot server does not answer
	// it again, and it goes on to whatever it boots otherwise.
	Restart Action = "Restart"
)

// Acknowledgement of a Report.
type Acknowledgement struct {
	Action Action `json:"action"`
}

// Booted is what the installed system says of itself after its first boot.
type Booted struct {
	InstanceID string `json:"instanceID"`
	Hostname   string `json:"hostname"`
	// Addresses of the interfaces, IPv4 and IPv6, without prefix length; link-local
	// and loopback ones are dropped by the manager.
	Addresses []string `json:"addresses"`
	// BootID is /proc/sys/kernel/random/boot_id.
	BootID string `json:"bootID"`
	// Interrupted: this is a later boot, and the first ended before cloud-init did, which
	// leaves out for good what it had begun in it.
	Interrupted bool `json:"interrupted,omitempty"`
	// Sentinel says whether /run/cluster-api/bootstrap-success.complete, by which bootstrap
	// providers tell that they have succeeded (Cluster API's contract of theirs), was there
	// when cloud-init had ended in the first boot. Nil: not known, as without cloud-init.
	Sentinel *bool `json:"sentinel,omitempty"`
}

// BootedReply acknowledges a Booted.
type BootedReply struct {
	Accepted bool `json:"accepted"`
}

// Reason of a refusal: stable, CamelCase, the same as the event's reason.
type Reason string

// The reasons. Retry says which of them may heal by waiting.
const (
	// ReasonTokenInvalid: not ours, damaged, expired, or for another operation.
	ReasonTokenInvalid Reason = "AgentTokenInvalid"
	// ReasonKeyConflict: another key already holds this order; both are revoked (I14).
	ReasonKeyConflict Reason = "AgentKeyConflict"
	// ReasonOrderGone: the order ended or changed; power off.
	ReasonOrderGone Reason = "OrderGone"
	// ReasonHardwareMismatch: the server is not the one registered (I8).
	ReasonHardwareMismatch Reason = "HardwareMismatch"
	// ReasonNotReady: try again later (bootstrap data not there yet, API conflict).
	ReasonNotReady Reason = "NotReady"
	// ReasonPaused: nobody may act on the host now (I10). An agent that is at work
	// stops writing, waits, and asks for its order again: the work goes on, from its
	// beginning, only with the answer to that.
	ReasonPaused Reason = "Paused"
	// ReasonBadRequest and ReasonTooLarge: the request itself is wrong.
	ReasonBadRequest Reason = "BadRequest"
	ReasonTooLarge   Reason = "TooLarge"
)

// Error is the body of every answer that is not 200.
type Error struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// RetryAfter is set where waiting may help.
	RetryAfter Duration `json:"retryAfter,omitempty"`
	// Action is BootDisk where an agent was booted for an install that is committed
	// already, as by a boot server that does not know it yet: the disk is the
	// system's, and the server must not stay off for it (I4, I5). Only an agent that
	// has no order may follow it. Empty: power off.
	Action Action `json:"action,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Reason, e.Message) }

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// RackLabel is the default of IngotCluster.spec.failureDomainLabel.
const RackLabel = "topology.infrastructure.cluster.x-k8s.io/rack"

// BMCCredentialsLabel marks the Secrets that hold BMC credentials, so that they
// are cached, watched and moved (I18).
const BMCCredentialsLabel = "infrastructure.cluster.x-k8s.io/bmc-credentials"

// BMCCredentialsDeleteLabel is set by the creator of a Secret with BMC credentials who wants
// the Secret deleted with the last of its hosts. Only such a Secret is owned by its hosts.
const BMCCredentialsDeleteLabel = "infrastructure.cluster.x-k8s.io/delete-with-hosts"

// BMCCredentialsSharedLabel marks a Secret with BMC credentials that no host owns: the
// Secret moves by clusterctl's label, and stays when its hosts are deleted.
const BMCCredentialsSharedLabel = "infrastructure.cluster.x-k8s.io/bmc-credentials-shared"

// Keys of the Secrets and ConfigMaps that Ingot reads.
const (
	SecretKeyUsername = "username"
	SecretKeyPassword = "password"
	// SecretKeyNextPassword is there while a password is being rotated: the BMC has
	// that one or SecretKeyPassword, and a login says which.
	SecretKeyNextPassword = "nextPassword"
	// SecretKeyUnprovenPassword is left by a rotation that failed after the BMC had
	// heard of a new password: a way back in, should it take it after all.
	SecretKeyUnprovenPassword = "unprovenPassword"
	CAKey                     = "ca.crt"
)

// Annotations by which an operator gives a command to Ingot. Each value starts with the UTC
// time at which the command is given, as `date -u +%FT%TZ` prints it (RFC 3339). A comma
// separates what follows. Ingot carries a command out at most once, and only within an hour
// of its time (I24).
const (
	AnnotationPrefix = "ingot.infrastructure.cluster.x-k8s.io/"
	// ApproveAnnotation lets Ingot take over a server that it found powered on (I8). With
	// instances after the time ("<time>,<instance>,<instance>"), it lets their disks be
	// overwritten instead.
	ApproveAnnotation = AnnotationPrefix + "approve"
	// ForceReleaseAnnotation on an IngotHost lets its machine go without a
	// confirmed power-off; the host is Quarantined as not fenced (I7).
	ForceReleaseAnnotation = AnnotationPrefix + "force-release"
	// ReleaseAnnotation releases a claim whose machine no longer exists (I6).
	ReleaseAnnotation = AnnotationPrefix + "release"
	// ClearQuarantineAnnotation puts a quarantined host back to work.
	ClearQuarantineAnnotation = AnnotationPrefix + "clear-quarantine"
	// InspectAnnotation asks for a new inspection of a free host.
	InspectAnnotation = AnnotationPrefix + "inspect"
	// RebootAnnotation asks for one reboot: "<time>" or "<time>,Graceful" by the operating
	// system, "<time>,Forced" by a power cycle.
	RebootAnnotation = AnnotationPrefix + "reboot"
	// RotateCredentialsAnnotation asks for a new password of the host's BMC.
	RotateCredentialsAnnotation = AnnotationPrefix + "rotate-credentials"
	// RetryBMCAnnotation lets Ingot contact a BMC that failed at once, also with a password
	// that the BMC refused, whenever the value is another than before.
	RetryBMCAnnotation = AnnotationPrefix + "retry-bmc"
)

// NetworksLabel on a namespace, with the value NetworksAllowed, lets its IngotHosts boot on
// the IngotNetworks whose spec.allowedNamespaces says nothing else.
const (
	NetworksLabel   = AnnotationPrefix + "networks"
	NetworksAllowed = "allowed"
)

// CommandsGivenByAnnotation on an IngotHost names the users who set its command annotations,
// as JSON. Ingot's webhook sets it, whatever the request says.
const CommandsGivenByAnnotation = AnnotationPrefix + "commands-given-by"

// EnrolledLabel marks an IngotHost that Ingot made itself, for a machine that it
// found on a network of mode Discover. Nothing is done to the host before a person has
// set ApproveAnnotation and given it a BMC; then Ingot takes the label away.
const EnrolledLabel = AnnotationPrefix + "enrolled"

// RotatedAtAnnotation on a BMC's Secret tells when Ingot gave the BMC the password in
// it (RFC 3339). Nobody else knows that password: such a Secret is not deleted with
// its host.
const RotatedAtAnnotation = AnnotationPrefix + "rotated-at"

// RotatingAnnotation on a BMC's Secret tells of which IngotHost, and at which address, the BMC
// may have SecretKeyNextPassword: "name address". Without it that password is what somebody
// proposes, and no BMC has heard of it.
const RotatingAnnotation = AnnotationPrefix + "rotating"

// LabelsFromHostAnnotation on a Node of a workload cluster lists the labels, separated by
// commas, that Ingot has written there because its host has them.
const LabelsFromHostAnnotation = AnnotationPrefix + "labels-from-host"

// MovePausedAnnotation pauses a host for clusterctl move (I10). The manager sets it
// on every host of a namespace whose Clusters are all paused, and takes it away when
// one of them is unpaused and the host's claim resolves; a person may take it away
// before. Its value is the time since when (RFC 3339). On an IPAddressClaim of such a host
// it is the Cluster by whose label the claim stands still, or empty.
const MovePausedAnnotation = AnnotationPrefix + "move-paused"

// ReasonMovePaused is the reason of a host's Paused condition under
// MovePausedAnnotation.
const ReasonMovePaused = "MovePaused"

// Finalizers.
const (
	HostFinalizer = "ingothost.infrastructure.cluster.x-k8s.io"
	// InUseFinalizer keeps the IngotHardware of a host, and the Secret and the CA bundle of
	// its BMC, until no host needs them, also if they are deleted (I23).
	InUseFinalizer   = "ingothost.infrastructure.cluster.x-k8s.io/in-use"
	MachineFinalizer = "ingotmachine.infrastructure.cluster.x-k8s.io"
	ClusterFinalizer = "ingotcluster.infrastructure.cluster.x-k8s.io"
	// RemediationFinalizer lets a power cycle that is under way be ended with the host on.
	RemediationFinalizer = "ingotremediation.infrastructure.cluster.x-k8s.io"
)

// ProviderIDScheme is the first part of "ingot://<namespace>/<host>/<instanceID>".
const ProviderIDScheme = "ingot://"

// Annotations of an IngotReservation, in which Ingot keeps the spec, as JSON, that it put
// another in the place of; a person has no use for them.
const (
	// PreviousSpecAnnotation: what stood when more was asked for, and stands again if that
	// cannot be promised.
	PreviousSpecAnnotation = AnnotationPrefix + "previous-spec"
	// ManualSpecAnnotation: what a person promised, and stands again after an upgrade.
	ManualSpecAnnotation = AnnotationPrefix + "manual-spec"
)

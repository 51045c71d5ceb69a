// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// RackLabel is the default label of failure domains, IngotCluster.spec.failureDomainLabel.
// +ingot:on=IngotHost
// +ingot:value=name of a failure domain
// +ingot:by=operator
const RackLabel = "topology.infrastructure.cluster.x-k8s.io/rack"

// BMCCredentialsLabel marks a Secret with BMC credentials or a CA bundle that hosts use, so that
// Ingot caches, watches and moves it (I18).
// +ingot:on=Secret, ConfigMap
// +ingot:value=any
// +ingot:by=Ingot
const BMCCredentialsLabel = "infrastructure.cluster.x-k8s.io/bmc-credentials"

// BMCCredentialsDeleteLabel lets Ingot delete the Secret with the last of its hosts. Only such a
// Secret has its hosts as owners.
// +ingot:on=Secret
// +ingot:value=any
// +ingot:by=operator
const BMCCredentialsDeleteLabel = "infrastructure.cluster.x-k8s.io/delete-with-hosts"

// BMCCredentialsSharedLabel marks a Secret that no host owns. The Secret moves by the label of
// clusterctl, and stays when its hosts are deleted.
// +ingot:on=Secret
// +ingot:value=any
// +ingot:by=Ingot
const BMCCredentialsSharedLabel = "infrastructure.cluster.x-k8s.io/bmc-credentials-shared"

// Keys of the Secrets and ConfigMaps that Ingot reads.
const (
	SecretKeyUsername = "username"
	SecretKeyPassword = "password"
	// SecretKeyNextPassword exists while Ingot changes the password: the BMC has this
	// password or that of SecretKeyPassword, and a login shows which.
	SecretKeyNextPassword = "nextPassword"
	// SecretKeyUnprovenPassword remains after a rotation that failed after the BMC had
	// received the new password, in case the BMC accepts it later.
	SecretKeyUnprovenPassword = "unprovenPassword"
	CAKey                     = "ca.crt"
)

// Annotations by which an operator gives a command to Ingot. Each value starts with the UTC
// time at which the command is given, as `date -u +%FT%TZ` prints it (RFC 3339). A comma
// separates what follows. Ingot carries a command out at most once, and only within an hour
// of its time (I24).
const (
	AnnotationPrefix = "ingot.infrastructure.cluster.x-k8s.io/"
	// ApproveAnnotation lets Ingot take over a server that was powered on, or a discovered host
	// (I8). With instances or damaged markers, it only lets Ingot overwrite their disks, until an
	// install or a cleaning has succeeded.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<instance>,…
	// +ingot:by=operator
	ApproveAnnotation = AnnotationPrefix + "approve"
	// ForceReleaseAnnotation lets the machine of the host go without a confirmed power-off; the
	// host is then quarantined as not fenced (I7). It has an effect only while the Machine or the
	// host is being deleted. Use it only if the server is certainly off.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	ForceReleaseAnnotation = AnnotationPrefix + "force-release"
	// ReleaseAnnotation releases a claim whose machine no longer exists (I6).
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	ReleaseAnnotation = AnnotationPrefix + "release"
	// ClearQuarantineAnnotation puts a quarantined host back into service. Ingot cleans the host
	// first if that is due.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	ClearQuarantineAnnotation = AnnotationPrefix + "clear-quarantine"
	// InspectAnnotation starts a new inspection of a free host.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	InspectAnnotation = AnnotationPrefix + "inspect"
	// RebootAnnotation reboots a provisioned host once. Graceful, the default, asks the operating
	// system; Forced is a power cycle.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, <time>,Graceful or <time>,Forced
	// +ingot:by=operator
	RebootAnnotation = AnnotationPrefix + "reboot"
	// RotateCredentialsAnnotation gives the BMC a new password and writes it to the Secret.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	RotateCredentialsAnnotation = AnnotationPrefix + "rotate-credentials"
	// RetryBMCAnnotation lets Ingot contact a failed BMC at once, also with a password that the
	// BMC rejected. Every change of the value has this effect.
	// +ingot:on=IngotHost
	// +ingot:value=<time>, or <time>,<note>
	// +ingot:by=operator
	RetryBMCAnnotation = AnnotationPrefix + "retry-bmc"
)

// The label of namespaces whose hosts may boot, and its value.
const (
	// NetworksLabel lets the hosts of the namespace boot on each IngotNetwork without
	// spec.allowedNamespaces.
	// +ingot:on=Namespace
	// +ingot:value=allowed
	// +ingot:by=operator
	NetworksLabel   = AnnotationPrefix + "networks"
	NetworksAllowed = "allowed"
)

// CommandsGivenByAnnotation names the users who set the command annotations, as JSON. The webhook
// sets it and overwrites other values.
// +ingot:on=IngotHost
// +ingot:value=JSON
// +ingot:by=Ingot
const CommandsGivenByAnnotation = AnnotationPrefix + "commands-given-by"

// EnrolledLabel marks a host that Ingot discovered. Ingot does nothing to the host before an
// operator sets spec.bmc and the annotation approve, and then removes the label.
// +ingot:on=IngotHost
// +ingot:value=any
// +ingot:by=Ingot
const EnrolledLabel = AnnotationPrefix + "enrolled"

// RotatedAtAnnotation is the time at which Ingot gave the BMC the password in the Secret (RFC
// 3339). Such a Secret is not deleted with its host, because only the Secret holds the password.
// +ingot:on=Secret
// +ingot:value=time
// +ingot:by=Ingot
const RotatedAtAnnotation = AnnotationPrefix + "rotated-at"

// RotatingAnnotation names the IngotHost and the BMC address that may have the password under
// nextPassword. Without it, no BMC has received that password.
// +ingot:on=Secret
// +ingot:value=<name> <address>
// +ingot:by=Ingot
const RotatingAnnotation = AnnotationPrefix + "rotating"

// LabelsFromHostAnnotation lists the labels that Ingot copied from the host to the Node, separated
// by commas.
// +ingot:on=Node
// +ingot:value=labels
// +ingot:by=Ingot
const LabelsFromHostAnnotation = AnnotationPrefix + "labels-from-host"

// MovePausedAnnotation pauses a host for clusterctl move (I10). Ingot sets it on all hosts of a
// namespace whose Clusters are all paused, and removes it after the move; an operator may remove
// it earlier. On an IPAddressClaim, the value is the Cluster that pauses it, or empty.
// +ingot:on=IngotHost, IPAddressClaim
// +ingot:value=time (RFC 3339)
// +ingot:by=Ingot
const MovePausedAnnotation = AnnotationPrefix + "move-paused"

// ReasonMovePaused: The host is paused because all Clusters of its namespace are paused, as during
// clusterctl move.
// +ingot:category=Progress
// +ingot:remedy=None during a move. Afterwards, unpause the Clusters, or remove the annotation
// move-paused.
const ReasonMovePaused = "MovePaused"

// Finalizers.
const (
	HostFinalizer = "ingothost.infrastructure.cluster.x-k8s.io"
	// InUseFinalizer keeps the IngotHardware of a host, and the Secret and the CA bundle of
	// its BMC, until no host needs them, also if they are deleted (I23).
	InUseFinalizer   = "ingothost.infrastructure.cluster.x-k8s.io/in-use"
	MachineFinalizer = "ingotmachine.infrastructure.cluster.x-k8s.io"
	ClusterFinalizer = "ingotcluster.infrastructure.cluster.x-k8s.io"
	// RemediationFinalizer keeps a remediation until its power cycle has left the host on.
	RemediationFinalizer = "ingotremediation.infrastructure.cluster.x-k8s.io"
)

// ProviderIDScheme is the first part of "ingot://<namespace>/<host>/<instanceID>".
const ProviderIDScheme = "ingot://"

// Annotations of an IngotReservation that keep a replaced spec.
const (
	// PreviousSpecAnnotation is the spec before a request for more hosts, as JSON. Ingot restores
	// it if the request cannot be met.
	// +ingot:on=IngotReservation
	// +ingot:value=JSON
	// +ingot:by=Ingot
	PreviousSpecAnnotation = AnnotationPrefix + "previous-spec"
	// ManualSpecAnnotation is the spec that an operator wrote, as JSON. Ingot restores it after an
	// upgrade of the Cluster.
	// +ingot:on=IngotReservation
	// +ingot:value=JSON
	// +ingot:by=Ingot
	ManualSpecAnnotation = AnnotationPrefix + "manual-spec"
)

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// RetainAnnotation on a Cluster of Ingot's holds its deletion until somebody takes the
// annotation away, where the runtime extension is installed. Its value is not looked
// at, unless it is "false".
const RetainAnnotation = AnnotationPrefix + "retain"

// UpgradeAnywayAnnotation on a Cluster of Ingot's lets one upgrade begin although a BMC does
// not answer, or a group that surges has no free host. Its value is the Kubernetes version to
// upgrade to (spec.topology.version); of other upgrades it says nothing.
const UpgradeAnywayAnnotation = AnnotationPrefix + "upgrade-anyway"

// DeleteInUseAnnotation on an IngotImage lets it be deleted although Clusters use it. Its
// value starts with the time at which it was given, as that of a host's commands, and it
// counts for an hour.
const DeleteInUseAnnotation = AnnotationPrefix + "delete-in-use"

// Reasons of the events by which the runtime extension writes down what Cluster API
// told it of a Cluster.
const (
	ReasonControlPlaneInitialized = "ControlPlaneInitialized"
	ReasonControlPlaneUpgraded    = "ControlPlaneUpgraded"
	ReasonWorkersUpgraded         = "WorkersUpgraded"
	ReasonClusterUpgraded         = "ClusterUpgraded"
)

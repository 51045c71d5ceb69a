// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// RetainAnnotation on a Cluster of Ingot's holds its deletion until somebody takes the
// annotation away, where the runtime extension is installed. Its value is not looked
// at, unless it is "false".
const RetainAnnotation = AnnotationPrefix + "retain"

// UpgradeAnywayAnnotation on a Cluster of Ingot's has the runtime extension let its
// upgrades go on though a BMC does not answer, or a group that surges has no free host.
// Its value is not looked at, unless it is "false".
const UpgradeAnywayAnnotation = AnnotationPrefix + "upgrade-anyway"

// DeleteInUseAnnotation on an IngotImage lets it be deleted though Clusters use it. Its
// value is not looked at.
const DeleteInUseAnnotation = AnnotationPrefix + "delete-in-use"

// Reasons of the events by which the runtime extension writes down what Cluster API
// told it of a Cluster.
const (
	ReasonControlPlaneInitialized = "ControlPlaneInitialized"
	ReasonControlPlaneUpgraded    = "ControlPlaneUpgraded"
	ReasonWorkersUpgraded         = "WorkersUpgraded"
	ReasonClusterUpgraded         = "ClusterUpgraded"
)

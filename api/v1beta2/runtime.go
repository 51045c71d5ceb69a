// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// RetainAnnotation holds the deletion of the Cluster until it is removed. It requires the runtime
// extension.
// +ingot:on=Cluster
// +ingot:value=any except false
// +ingot:by=operator
const RetainAnnotation = AnnotationPrefix + "retain"

// UpgradeAnywayAnnotation lets the upgrade of the Cluster to this version begin although a BMC
// does not answer, or a group that surges has no free host.
// +ingot:on=Cluster
// +ingot:value=Kubernetes version
// +ingot:by=operator
const UpgradeAnywayAnnotation = AnnotationPrefix + "upgrade-anyway"

// DeleteInUseAnnotation lets the image be deleted within an hour of the time although Clusters use
// it.
// +ingot:on=IngotImage
// +ingot:value=<time>
// +ingot:by=operator
const DeleteInUseAnnotation = AnnotationPrefix + "delete-in-use"

// Reasons of the events that the runtime extension records on a Cluster.
const (
	// ReasonControlPlaneInitialized: The first control plane machine of the Cluster runs.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonControlPlaneInitialized = "ControlPlaneInitialized"
	// ReasonControlPlaneUpgraded: The control plane of the Cluster runs the new version.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonControlPlaneUpgraded = "ControlPlaneUpgraded"
	// ReasonWorkersUpgraded: The workers of the Cluster run the new version.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonWorkersUpgraded = "WorkersUpgraded"
	// ReasonClusterUpgraded: The Cluster runs the new version.
	// +ingot:category=Progress
	// +ingot:remedy=None.
	ReasonClusterUpgraded = "ClusterUpgraded"
)

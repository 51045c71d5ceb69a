// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterapi

// A Provider is one of the three that Cluster API itself consists of.
type Provider struct {
	// Name and Kind are those of clusterctl's configuration.
	Name, Kind string
	// Label is how clusterctl names the provider's directory.
	Label string
	// Source is a directory in the module of Cluster API.
	Source string
	// Components is the name of the manifest in a clusterctl repository.
	Components string
	// Namespace is where the provider is installed.
	Namespace string
	// Service is what its webhook configurations name.
	Service string
	// Program is its manager among hack/tools.
	Program string
	// Image is the image that its released Deployment names, without the tag,
	// which is the version.
	Image string
}

// Providers returns the three, in the order in which clusterctl installs them.
func Providers() []Provider {
	return []Provider{
		{
			Name: "cluster-api", Kind: "CoreProvider", Label: "cluster-api",
			Source: "core", Components: "core-components.yaml",
			Namespace: "capi-system", Service: "capi-webhook-service",
			Program: "capi-core-manager",
			Image:   "registry.k8s.io/cluster-api/cluster-api-controller",
		}, {
			Name: "kubeadm", Kind: "BootstrapProvider", Label: "bootstrap-kubeadm",
			Source: "bootstrap/kubeadm", Components: "bootstrap-components.yaml",
			Namespace: "capi-kubeadm-bootstrap-system", Service: "capi-kubeadm-bootstrap-webhook-service",
			Program: "capi-kubeadm-bootstrap-manager",
			Image:   "registry.k8s.io/cluster-api/kubeadm-bootstrap-controller",
		}, {
			Name: "kubeadm", Kind: "ControlPlaneProvider", Label: "control-plane-kubeadm",
			Source: "controlplane/kubeadm", Components: "control-plane-components.yaml",
			Namespace: "capi-kubeadm-control-plane-system", Service: "capi-kubeadm-control-plane-webhook-service",
			Program: "capi-kubeadm-control-plane-manager",
			Image:   "registry.k8s.io/cluster-api/kubeadm-control-plane-controller",
		},
	}
}

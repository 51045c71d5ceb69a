// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"bytes"
	"fmt"
	"os"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types/upstream"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/cluster-api/util/version"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A Template is what of a cluster template becomes user data of servers, as
// Cluster API's kubeadm bootstrap provider makes it, by that provider's own code.
type Template struct {
	Cluster      clusterv1.Cluster
	Endpoint     infrav1.IngotCluster
	ControlPlane controlplanev1.KubeadmControlPlane
	Workers      bootstrapv1.KubeadmConfigTemplate
}

// An Addition is put into user data beside what the template says.
type Addition struct {
	Files []bootstrapv1.File
	// Before and After are shell commands before and after those of kubeadm.
	Before, After []string
}

// Read reads a template after clusterctl's own substitution of variables. One
// without a default that is missing is an error.
func Read(path string, variables map[string]string) (*Template, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(raw, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}
		return "", fmt.Errorf("no value for %s", name)
	})
	if err != nil {
		return nil, fmt.Errorf("fill in %s: %w", path, err)
	}
	t := &Template{}
	objects := map[string]any{
		"Cluster": &t.Cluster, "IngotCluster": &t.Endpoint,
		"KubeadmControlPlane": &t.ControlPlane, "KubeadmConfigTemplate": &t.Workers,
	}
	for _, document := range bytes.Split(filled, []byte("\n---\n")) {
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if into, ok := objects[kind.Kind]; ok {
			if err := yaml.UnmarshalStrict(document, into); err != nil {
				return nil, fmt.Errorf("read %s of %s: %w", kind.Kind, path, err)
			}
			delete(objects, kind.Kind)
		}
	}
	for kind := range objects {
		return nil, fmt.Errorf("%s has no %s", path, kind)
	}
	return t, nil
}

// Init is the user data of the first server of the control plane, with keys made
// for it.
func (t *Template) Init(more Addition) (string, error) {
	spec := t.ControlPlane.Spec.KubeadmConfigSpec.DeepCopy()
	base, err := t.base(spec, more)
	if err != nil {
		return "", err
	}
	cluster := &spec.ClusterConfiguration
	if cluster.ControlPlaneEndpoint == "" {
		cluster.ControlPlaneEndpoint = t.endpoint()
	}
	clusterData, err := types.MarshalClusterConfigurationForVersion(cluster, base.KubernetesVersion, t.additionalData())
	if err != nil {
		return "", err
	}
	initData, err := types.MarshalInitConfigurationForVersion(&spec.InitConfiguration, base.KubernetesVersion)
	if err != nil {
		return "", err
	}
	certificates := secret.NewCertificatesForInitialControlPlane(cluster)
	if err := certificates.Generate(); err != nil {
		return "", fmt.Errorf("make the keys of the cluster: %w", err)
	}
	data, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		BaseUserData: base, Certificates: certificates, ClusterConfiguration: clusterData, InitConfiguration: initData,
	})
	return string(data), err
}

// JoinControlPlane is the user data of a further server of the control plane.
func (t *Template) JoinControlPlane(discovery bootstrapv1.BootstrapTokenDiscovery, more Addition) (string, error) {
	spec := t.ControlPlane.Spec.KubeadmConfigSpec.DeepCopy()
	base, join, err := t.join(spec, discovery, more)
	if err != nil {
		return "", err
	}
	certificates := secret.NewCertificatesForInitialControlPlane(&spec.ClusterConfiguration)
	if err := certificates.Generate(); err != nil {
		return "", fmt.Errorf("make the keys of the cluster: %w", err)
	}
	data, err := cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
		BaseUserData: base, Certificates: certificates, BootstrapToken: discovery.Token, JoinConfiguration: join,
	})
	return string(data), err
}

// Join is the user data of a worker.
func (t *Template) Join(discovery bootstrapv1.BootstrapTokenDiscovery, more Addition) (string, error) {
	base, join, err := t.join(t.Workers.Spec.Template.Spec.DeepCopy(), discovery, more)
	if err != nil {
		return "", err
	}
	data, err := cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: base, JoinConfiguration: join})
	return string(data), err
}

func (t *Template) join(spec *bootstrapv1.KubeadmConfigSpec, discovery bootstrapv1.BootstrapTokenDiscovery, more Addition) (cloudinit.BaseUserData, string, error) {
	base, err := t.base(spec, more)
	if err != nil {
		return base, "", err
	}
	join := spec.JoinConfiguration.DeepCopy()
	if discovery.APIServerEndpoint == "" {
		discovery.APIServerEndpoint = t.endpoint()
	}
	join.Discovery.BootstrapToken = discovery
	data, err := types.MarshalJoinConfigurationForVersion(join, base.KubernetesVersion)
	return base, data, err
}

func (t *Template) base(spec *bootstrapv1.KubeadmConfigSpec, more Addition) (cloudinit.BaseUserData, error) {
	parsed, err := version.ParseTolerantImageTag(t.ControlPlane.Spec.Version)
	if err != nil {
		return cloudinit.BaseUserData{}, fmt.Errorf("version of the control plane: %w", err)
	}
	return cloudinit.BaseUserData{
		KubernetesVersion:   parsed,
		AdditionalFiles:     append(spec.Files, more.Files...),
		PreKubeadmCommands:  append(more.Before, spec.PreKubeadmCommands...),
		PostKubeadmCommands: append(spec.PostKubeadmCommands, more.After...),
		Users:               spec.Users,
	}, nil
}

func (t *Template) endpoint() string {
	e := t.Endpoint.Spec.ControlPlaneEndpoint
	return fmt.Sprintf("%s:%d", e.Host, e.Port)
}

// additionalData is what the provider takes from Cluster and Machine.
func (t *Template) additionalData() *upstream.AdditionalData {
	network := t.Cluster.Spec.ClusterNetwork
	pods, services := network.Pods.String(), network.Services.String()
	return &upstream.AdditionalData{
		ClusterName: &t.Cluster.Name, KubernetesVersion: &t.ControlPlane.Spec.Version,
		DNSDomain: &network.ServiceDomain, PodSubnet: &pods, ServiceSubnet: &services,
	}
}

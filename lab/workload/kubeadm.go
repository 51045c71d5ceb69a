// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	defaultAPIPort         = 6443
	defaultCertificatesDir = "/etc/kubernetes/pki"
)

// arguments are the extra arguments of a component: a map up to kubeadm's v1beta3, a list since
// v1beta4. The last value of a name applies.
type arguments map[string]string

func (a *arguments) UnmarshalJSON(data []byte) error {
	out := map[string]string{}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		var list []struct{ Name, Value string }
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		for _, one := range list {
			out[one.Name] = one.Value
		}
	} else if err := json.Unmarshal(data, &out); err != nil {
		return err
	}
	*a = out
	return nil
}

// nodeRegistration configures the registration by the kubelet.
type nodeRegistration struct {
	Name string `json:"name"`
	// Taints: nil means the default of the node's role, an empty list means none.
	Taints           *[]corev1.Taint `json:"taints"`
	KubeletExtraArgs arguments       `json:"kubeletExtraArgs"`
}

// kubeadmConfig is the supported part of kubeadm's documents.
type kubeadmConfig struct {
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	SkipPhases       []string         `json:"skipPhases"`

	// From ClusterConfiguration.
	KubernetesVersion    string `json:"kubernetesVersion"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	CertificatesDir      string `json:"certificatesDir"`
	APIServer            struct {
		CertSANs []string `json:"certSANs"`
	} `json:"apiServer"`

	// From JoinConfiguration.
	Discovery struct {
		BootstrapToken struct {
			Token             string   `json:"token"`
			APIServerEndpoint string   `json:"apiServerEndpoint"`
			CACertHashes      []string `json:"caCertHashes"`
		} `json:"bootstrapToken"`
	} `json:"discovery"`
	ControlPlane *struct{} `json:"controlPlane"`

	// clusterConfiguration is the document that is uploaded for joining nodes.
	clusterConfiguration string
}

// parseKubeadm merges the documents of a configuration file.
func parseKubeadm(text []byte) (*kubeadmConfig, error) {
	config := &kubeadmConfig{}
	for _, document := range strings.Split("\n"+string(text), "\n---") {
		kind := struct {
			Kind string `json:"kind"`
		}{}
		if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
			return nil, fmt.Errorf("kubeadm configuration: %w", err)
		}
		switch kind.Kind {
		case "":
			continue
		case "ClusterConfiguration":
			config.clusterConfiguration = strings.TrimSpace(document) + "\n"
		}
		if err := yaml.Unmarshal([]byte(document), config); err != nil {
			return nil, fmt.Errorf("kubeadm configuration: %s: %w", kind.Kind, err)
		}
	}
	return config, nil
}

// keys are the authorities on the disk of a control plane.
type keys struct{ ca, etcdCA *authority }

// readKeys parses the authorities in the bootstrap data.
func (s *script) readKeys(dir string) (*keys, error) {
	dir = cmp.Or(dir, defaultCertificatesDir)
	ca, caErr := s.authority(dir, "ca")
	etcd, etcdErr := s.authority(dir, "etcd/ca")
	if err := errors.Join(caErr, etcdErr); err != nil {
		return nil, err
	}
	for _, file := range []string{"sa.pub", "sa.key"} {
		if len(s.files[path.Join(dir, file)]) == 0 {
			return nil, fmt.Errorf("keys: no %s", file)
		}
	}
	return &keys{ca: ca, etcdCA: etcd}, nil
}

func (s *script) authority(dir, name string) (*authority, error) {
	a, err := newAuthority(s.files[path.Join(dir, name+".crt")], s.files[path.Join(dir, name+".key")])
	if err != nil {
		return nil, fmt.Errorf("keys: %s: %w", name, err)
	}
	return a, nil
}

// skips reports whether a phase, or its parent phase, is skipped.
func (c *kubeadmConfig) skips(phase string) bool {
	return slices.ContainsFunc(c.SkipPhases, func(skipped string) bool {
		return phase == skipped || strings.HasPrefix(phase, skipped+"/")
	})
}

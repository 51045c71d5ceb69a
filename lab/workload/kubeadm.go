// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	defaultAPIPort         = 6443
	defaultCertificatesDir = "/etc/kubernetes/pki"
)

// arguments are a component's extra arguments: a map up to v1beta3 of kubeadm's
// API, a list since v1beta4. The last of several values counts.
type arguments map[string]string

// UnmarshalJSON implements json.Unmarshaler.
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

// nodeRegistration says what the kubelet is to register.
type nodeRegistration struct {
	Name string `json:"name"`
	// Taints: nil is the default of the node's role, an empty list is none.
	Taints           *[]corev1.Taint `json:"taints"`
	KubeletExtraArgs arguments       `json:"kubeletExtraArgs"`
}

// kubeadmConfig is what is understood of the documents given to kubeadm.
type kubeadmConfig struct {
	NodeRegistration nodeRegistration `json:"nodeRegistration"`
	SkipPhases       []string         `json:"skipPhases"`

	// Of ClusterConfiguration.
	KubernetesVersion    string `json:"kubernetesVersion"`
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
	CertificatesDir      string `json:"certificatesDir"`
	APIServer            struct {
		CertSANs []string `json:"certSANs"`
	} `json:"apiServer"`

	// Of JoinConfiguration.
	Discovery struct {
		BootstrapToken struct {
			Token             string   `json:"token"`
			APIServerEndpoint string   `json:"apiServerEndpoint"`
			CACertHashes      []string `json:"caCertHashes"`
		} `json:"bootstrapToken"`
	} `json:"discovery"`
	ControlPlane *struct{} `json:"controlPlane"`

	// clusterConfiguration is that document as it is uploaded for joiners.
	clusterConfiguration string
}

// parseKubeadm reads the documents of a configuration file into one.
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

// keys are what kubeadm finds on the disk of a control plane.
type keys struct{ ca, etcdCA *authority }

// readKeys reads the authorities from the files of the bootstrap data.
func (s *script) readKeys(dir string) (*keys, error) {
	if dir == "" {
		dir = defaultCertificatesDir
	}
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

// skips says whether a phase, or the one that it is a part of, is left out.
func (c *kubeadmConfig) skips(phase string) bool {
	for _, skipped := range c.SkipPhases {
		if phase == skipped || strings.HasPrefix(phase, skipped+"/") {
			return true
		}
	}
	return false
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"bytes"
	"embed"
	"path/filepath"
	"text/template"

	"golang.org/x/mod/semver"

	"github.com/ingot-metal/ingot/hack/debian"
)

// rootFiles are the additional files of a node.
//
//go:embed all:root
var rootFiles embed.FS

// gateFiles are for releases that know the feature gates of gatesSince. An API server ends
// over a gate that it does not know.
//
//go:embed all:root-v1.34
var gateFiles embed.FS

const gatesSince = "v1.34.0"

//go:embed containerd.toml
var containerdConfig string

// importScript brings the archive into containerd's store when the tree is
// complete, and removes it.
//
//go:embed import.sh
var importScript string

// archivePath is the path of the archive for importScript.
const archivePath = "/var/lib/import/images.tar"

// nodePackages are the packages that kubeadm checks for, and that containerd and network plugins
// use.
var nodePackages = []string{
	"runc", "containernetworking-plugins", "iptables", "nftables", "conntrack", "ethtool", "socat",
}

// Programs of package tools' group containerd.
var containerdPrograms = []string{"containerd", "containerd-shim-runc-v2", "ctr"}

// System returns the recipe of a node without container images. programs is the directory of the
// programs; containerd contains the paths of containerd's programs.
func (r Release) System(programs string, containerd map[string]string) (debian.System, error) {
	system, err := debian.Metal()
	if err != nil {
		return system, err
	}
	own, err := debian.FilesOf(rootFiles, "root")
	if err != nil {
		return system, err
	}
	if semver.Compare(r.Kubernetes, gatesSince) >= 0 {
		gates, err := debian.FilesOf(gateFiles, "root-v1.34")
		if err != nil {
			return system, err
		}
		own = append(own, gates...)
	}
	config, err := r.containerdConfig()
	if err != nil {
		return system, err
	}
	system.Packages = append(system.Packages, nodePackages...)
	system.Files = append(system.Files, own...)
	system.Files = append(system.Files,
		debian.File{Path: "/etc/containerd/config.toml", Data: config},
		// Network plugins install their programs here, next to Debian's.
		debian.File{Path: "/opt/cni/bin", Link: "/usr/lib/cni"},
		debian.File{Path: "/usr/local/bin/kube", Source: filepath.Join(programs, "kube"), Mode: 0o755},
	)
	for _, name := range []string{"kubelet", "kubeadm", "kubectl"} {
		system.Files = append(system.Files, debian.File{Path: "/usr/local/bin/" + name, Link: "kube"})
	}
	for _, name := range containerdPrograms {
		system.Files = append(system.Files, debian.File{Path: "/usr/local/bin/" + name, Source: containerd[name], Mode: 0o755})
	}
	system.Enable = append(system.Enable, "containerd", "kubelet")
	system.Hooks = append(system.Hooks, importScript)
	return system, nil
}

func (r Release) containerdConfig() ([]byte, error) {
	parsed, err := template.New("containerd.toml").Option("missingkey=error").Parse(containerdConfig)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, map[string]string{"PauseImage": "registry.k8s.io/pause:" + r.Pause})
	return b.Bytes(), err
}

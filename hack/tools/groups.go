// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"strings"
)

// group is a wrapper module with the programs that are built from it.
type group struct {
	// name is the directory below hack/tools and the argument of Build.
	name string
	// pin is the module whose version names the build.
	pin string
	// programs are built with one go command each.
	programs []program
	// tags are build tags.
	tags string
	// versionPackages get the pinned version from the linker, as in the projects' releases.
	// kubeadm and clusterctl check it.
	versionPackages []string
	// onRequest groups are built only when they are named, to keep the first "make test" of a
	// machine fast.
	onRequest bool
}

// program is a main package with its file name and aliases.
type program struct {
	file    string
	pkg     string
	aliases []string
}

// groups returns all groups.
func groups() []group { return append(everyday(), requested()...) }

// everyday returns the groups that most targets need, the fastest first.
func everyday() []group {
	return []group{
		{
			name:     "gen",
			pin:      "sigs.k8s.io/controller-tools",
			programs: []program{{file: "controller-gen", pkg: "sigs.k8s.io/controller-tools/cmd/controller-gen"}},
		},
		{
			name:     "ignition",
			pin:      "github.com/coreos/ignition/v2",
			programs: []program{{file: "ignition-validate", pkg: "github.com/coreos/ignition/v2/validate"}},
		},
		{
			name: "kube",
			pin:  "k8s.io/kubernetes",
			programs: []program{{
				file:    "kube",
				pkg:     ".",
				aliases: []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubeadm"},
			}},
			versionPackages: []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
		},
		{
			name: "capi",
			pin:  "sigs.k8s.io/cluster-api",
			programs: []program{
				{file: "capi-core-manager", pkg: "sigs.k8s.io/cluster-api/core"},
				{file: "capi-kubeadm-bootstrap-manager", pkg: "sigs.k8s.io/cluster-api/bootstrap/kubeadm"},
				{file: "capi-kubeadm-control-plane-manager", pkg: "sigs.k8s.io/cluster-api/controlplane/kubeadm"},
				{file: "clusterctl", pkg: "sigs.k8s.io/cluster-api/cmd/clusterctl"},
			},
			// As in the Dockerfile of Cluster API's own releases.
			tags:            "fieldsv1string",
			versionPackages: []string{"sigs.k8s.io/cluster-api/version"},
		},
	}
}

// requested returns the groups that are built only when they are named.
func requested() []group {
	return []group{
		{
			name:      "lint",
			pin:       "github.com/golangci/golangci-lint/v2",
			programs:  []program{{file: "golangci-lint", pkg: "."}},
			onRequest: true,
		},
		{
			name: "node",
			pin:  "k8s.io/kubernetes",
			programs: []program{
				{file: "node", pkg: ".", aliases: []string{"kube-scheduler", "kubelet", "kube-proxy"}},
				{file: "pause", pkg: "./pause"},
			},
			versionPackages: []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"},
			onRequest:       true,
		},
		{
			name:      "dns",
			pin:       "github.com/coredns/coredns",
			programs:  []program{{file: "coredns", pkg: "."}},
			onRequest: true,
		},
		{
			name: "containerd",
			pin:  "github.com/containerd/containerd/v2",
			programs: []program{
				{file: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd"},
				{file: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
				{file: "ctr", pkg: "github.com/containerd/containerd/v2/cmd/ctr"},
			},
			onRequest: true,
		},
		{
			name: "certmanager",
			pin:  "github.com/cert-manager/cert-manager",
			programs: []program{
				{file: "cert-manager", pkg: "."},
				{file: "cert-manager-manifests", pkg: "./manifests"},
			},
			onRequest: true,
		},
		{
			name: "etcd",
			pin:  "go.etcd.io/etcd/etcdutl/v3",
			programs: []program{
				{file: "etcdctl", pkg: "go.etcd.io/etcd/etcdctl/v3"},
				{file: "etcdutl", pkg: "go.etcd.io/etcd/etcdutl/v3"},
			},
			onRequest: true,
		},
		{
			name: "docs",
			pin:  "github.com/elastic/crd-ref-docs",
			programs: []program{
				{file: "crd-ref-docs", pkg: "github.com/elastic/crd-ref-docs"},
				{file: "diagrams", pkg: "."},
			},
			onRequest: true,
		},
		{
			name:      "hugo",
			pin:       "github.com/gohugoio/hugo",
			programs:  []program{{file: "hugo", pkg: "github.com/gohugoio/hugo"}},
			onRequest: true,
		},
	}
}

// has reports whether the group contains a program or alias of that name.
func (g group) has(name string) bool {
	for _, p := range g.programs {
		if p.file == name {
			return true
		}
		for _, a := range p.aliases {
			if a == name {
				return true
			}
		}
	}
	return false
}

// flags returns the common arguments of "go build". A fixed build date makes the build
// reproducible.
func (g group) flags(version string) []string {
	ld := []string{"-s", "-w"}
	major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	for _, pkg := range g.versionPackages {
		for _, kv := range [][2]string{
			{"gitVersion", version}, {"gitMajor", major}, {"gitMinor", minor},
			{"gitTreeState", "clean"}, {"gitCommit", "gomodule"}, {"buildDate", "1970-01-01T00:00:00Z"},
		} {
			ld = append(ld, "-X", fmt.Sprintf("%s.%s=%s", pkg, kv[0], kv[1]))
		}
	}
	args := []string{"-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(ld, " ")}
	if g.tags != "" {
		args = append(args, "-tags="+g.tags)
	}
	return args
}

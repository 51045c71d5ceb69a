// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"fmt"
	"strings"
)

// A group is one wrapper module and the programs that are built from it.
type group struct {
	// name is the directory below hack/tools and the argument of Build.
	name string
	// pin is the module whose version names the build and is given to it.
	pin string
	// programs are built by one go command each.
	programs []program
	// tags are build tags.
	tags string
	// versionPackages get the pinned version by the linker, the way the
	// project's own releases do; version checks of kubeadm and clusterctl
	// misbehave without it.
	versionPackages []string
}

// A program is one main package, the file it becomes, and the names by which
// that file can be called as well.
type program struct {
	file    string
	pkg     string
	aliases []string
}

// groups lists everything that "make tools" builds, the cheapest first.
func groups() []group {
	return []group{
		{
			name:     "gen",
			pin:      "sigs.k8s.io/controller-tools",
			programs: []program{{file: "controller-gen", pkg: "sigs.k8s.io/controller-tools/cmd/controller-gen"}},
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

// has reports whether the group offers a program or alias of that name.
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

// flags returns the arguments of "go build" that are the same for all
// programs of the group. The build date is fixed, so that a build can be
// repeated bit by bit.
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

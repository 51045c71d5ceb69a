// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"maps"
	"path/filepath"

	"github.com/ingot-metal/ingot/lab/image"
)

// controlPlane contains the Kubernetes programs that run in containers, by image name.
var controlPlane = []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"}

// packetFilter contains iptables and nft with their dependencies, for kube-proxy and the network
// plugin: paths in the image with files of this machine, and links.
type packetFilter struct{ files, links map[string]string }

// packetFilterPackages are the packages for packetFilterOf.
var packetFilterPackages = []string{"iptables", "nftables"}

// multiCall is Debian's iptables. The package's scripts, which do not run here, would create its
// names.
const multiCall = "/usr/sbin/xtables-nft-multi"

// packetFilterOf returns the part of a tree that kube-proxy needs, with the names that it calls.
func packetFilterOf(from tree) (tree, error) {
	roots := append([]string{multiCall, "/usr/sbin/nft"}, from.below("/usr/lib/x86_64-linux-gnu/xtables", ".so")...)
	part, err := closure(from, roots...)
	if err != nil {
		return part, err
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		part.links["/usr/sbin/"+name] = filepath.Base(multiCall)
	}
	return part, nil
}

// podNetworkImage is the image of the lab's network plugin, as in its manifest (lab/podnet).
const podNetworkImage = "ingot.lab/podnet:v1"

// containers lists the container images of a release, made from the programs in a
// directory and the lab's network plugin. Those of Kubernetes have the very same
// layer, which is stored once.
func (r Release) containers(programs, podNetwork string, filter packetFilter) []image.Image {
	files := map[string]string{"/usr/local/bin/kube": filepath.Join(programs, "kube")}
	links := map[string]string{}
	for _, name := range controlPlane {
		links["/usr/local/bin/"+name] = "kube"
	}
	maps.Copy(files, filter.files)
	maps.Copy(links, filter.links)
	var all []image.Image
	for _, name := range controlPlane {
		all = append(all, image.Image{
			Name: "registry.k8s.io/" + name + ":" + r.Kubernetes, Files: files, Links: links,
			Entrypoint: []string{"/usr/local/bin/" + name},
		})
	}
	single := func(name, program, user string) image.Image {
		return image.Image{
			Name: name, Files: map[string]string{"/usr/local/bin/" + program: filepath.Join(programs, program)},
			Entrypoint: []string{"/usr/local/bin/" + program}, User: user,
		}
	}
	plugin := image.Image{
		Name: podNetworkImage, Files: maps.Clone(filter.files), Links: filter.links, Entrypoint: []string{"/usr/local/bin/podnetd"},
	}
	if plugin.Files == nil {
		plugin.Files = map[string]string{}
	}
	plugin.Files["/usr/local/bin/podnetd"] = podNetwork
	return append(all, plugin,
		single("registry.k8s.io/etcd:"+r.Etcd, "etcd", ""),
		single("registry.k8s.io/coredns/coredns:"+r.CoreDNS, "coredns", ""),
		single("registry.k8s.io/pause:"+r.Pause, "pause", "65535"),
		single("ghcr.io/kube-vip/kube-vip:"+kubeVIPVersion, "kube-vip", ""),
	)
}

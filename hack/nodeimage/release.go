// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"fmt"
	"regexp"
	"strings"
)

// kubeVIPVersion is the release of kube-vip in every node image. The templates
// work with 1.0 and later.
const kubeVIPVersion = "v1.2.2"

// Release is a Kubernetes version with the versions of the images that its kubeadm uses.
type Release struct {
	// Kubernetes is the version, like v1.36.3.
	Kubernetes string
	// Etcd is the tag of etcd's image, like 3.6.8-0.
	Etcd string
	// CoreDNS is the tag of CoreDNS's image, like v1.14.2.
	CoreDNS string
	// Pause is the tag of the image of pod sandboxes, like 3.10.2.
	Pause string
}

var versionPattern = regexp.MustCompile(`^v1\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

// checkVersion accepts released versions of Kubernetes only.
func checkVersion(version string) error {
	if !versionPattern.MatchString(version) {
		return fmt.Errorf("%q is no released version of Kubernetes, such as v1.36.3", version)
	}
	return nil
}

// parseRelease reads the constants of kubeadm: the file
// cmd/kubeadm/app/constants/constants.go of the module k8s.io/kubernetes.
func parseRelease(version string, constants []byte) (Release, error) {
	r := Release{Kubernetes: version}
	for name, into := range map[string]*string{
		"DefaultEtcdVersion": &r.Etcd, "CoreDNSVersion": &r.CoreDNS, "PauseVersion": &r.Pause,
	} {
		found := regexp.MustCompile(`(?m)^\s+` + name + `\s+=\s+"([^"]+)"`).FindSubmatch(constants)
		if found == nil {
			return Release{}, fmt.Errorf("kubeadm %s has no constant %s", version, name)
		}
		*into = string(found[1])
	}
	return r, nil
}

// etcdModule returns the version of etcd's module: the image's tag without the build number.
func (r Release) etcdModule() string {
	version, _, _ := strings.Cut(r.Etcd, "-")
	return "v" + version
}

// staging returns the version of the staging modules, such as k8s.io/api.
func (r Release) staging() string { return "v0" + strings.TrimPrefix(r.Kubernetes, "v1") }

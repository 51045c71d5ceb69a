// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"text/template"

	"golang.org/x/sys/unix"

	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/pki"
)

const (
	logDir = "log"
	// kubeletClient is the name of the API server's client certificate for the kubelet.
	kubeletClient = "kubelet-client"

	kubeletKubeconfig   = "kubelet.kubeconfig"
	proxyKubeconfig     = "kube-proxy.kubeconfig"
	schedulerKubeconfig = "kube-scheduler.kubeconfig"
)

//go:embed files
var templates embed.FS

// settings are the template variables of files/.
type settings struct {
	// Dir is the state directory, Name the node's name, and CgroupRoot its control group with a
	// leading slash.
	Dir, Name, CgroupRoot string
	// Shim, Runc and Plugins are the paths of these programs.
	Shim, Runc, Plugins string
	// PauseImage is the image that holds a pod's namespaces.
	PauseImage string
	// NameServer is the address of the cluster's name server.
	NameServer string
	// KeepOOMScore means that root may not make a process less likely to be killed for lack of
	// memory than its parent.
	KeepOOMScore bool
}

// write renders the files of files/ into the state directory.
func (s settings) write() error {
	parsed, err := template.ParseFS(templates, "files/*")
	if err != nil {
		return err
	}
	for _, t := range parsed.Templates() {
		var content bytes.Buffer
		if err := t.Execute(&content, s); err != nil {
			return fmt.Errorf("render %s: %w", t.Name(), err)
		}
		path := filepath.Join(s.Dir, t.Name())
		if filepath.Ext(path) == ".conflist" {
			path = filepath.Join(s.Dir, "cni", t.Name()) // a directory that containerd reads
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// mayRaiseOOMScore reports whether this process has CAP_SYS_RESOURCE. Without it, runc cannot start a
// container that requests a better score.
func mayRaiseOOMScore() (bool, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false, fmt.Errorf("read the capabilities of this process: %w", err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0, nil
}

// writeKeys writes the keys and kubeconfigs of all components.
func writeKeys(dir, server, name string, address net.IP) error {
	ca, err := controlplane.WritePKI(dir, server, address)
	if err != nil {
		return err
	}
	apiserver, err := ca.Client("kube-apiserver", "system:masters")
	if err != nil {
		return err
	}
	if err := apiserver.Write(filepath.Join(dir, "pki"), kubeletClient); err != nil {
		return err
	}
	for _, client := range []struct{ file, user, group string }{
		{kubeletKubeconfig, "system:node:" + name, "system:nodes"},
		// Kubernetes itself binds roles to these two names.
		{proxyKubeconfig, "system:kube-proxy", "system:nodes:proxy"},
		{schedulerKubeconfig, "system:kube-scheduler", "system:schedulers"},
	} {
		pair, err := ca.Client(client.user, client.group)
		if err != nil {
			return err
		}
		if err := pki.WriteKubeconfig(filepath.Join(dir, client.file), server, ca, pair); err != nil {
			return err
		}
	}
	return nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/ingot-metal/ingot/lab/datacentre"
	"github.com/ingot-metal/ingot/lab/qemu"
)

//go:embed manifests
var manifests embed.FS

// rackOf says in which rack each server of the demo stands.
var rackOf = map[string]string{"bios-1": "rack-a", "spare-1": "rack-a", "uefi-1": "rack-b"}

// servers are the three of the demo: one BIOS, one UEFI with the NIC and the disk
// of a real server, one spare.
func (s *show) servers() []datacentre.ServerSpec {
	specs := []datacentre.ServerSpec{
		{Name: "bios-1", Firmware: qemu.BIOS},
		{Name: "uefi-1", Firmware: qemu.UEFI, NIC: qemu.E1000E, Disk: qemu.NVMe},
		{Name: "spare-1", Firmware: qemu.BIOS},
	}
	specs = slices.DeleteFunc(specs, func(spec datacentre.ServerSpec) bool { return !slices.Contains(s.Servers, spec.Name) })
	for i := range specs {
		if s.SwapHardware {
			swapHardware(&specs[i])
		}
		specs[i].Kind = datacentre.Virtual
		if s.Simulated {
			specs[i].Kind = datacentre.Simulated
		}
		if slices.Contains(s.WithoutDisk, specs[i].Name) {
			specs[i].DiskBytes = -1
		}
	}
	return specs
}

// swapHardware exchanges virtio for e1000e and NVMe, and back.
func swapHardware(spec *datacentre.ServerSpec) {
	if spec.NIC == qemu.E1000E {
		spec.NIC, spec.Disk = qemu.VirtioNet, qemu.VirtioBlk
		return
	}
	spec.NIC, spec.Disk = qemu.E1000E, qemu.NVMe
}

// hostInput fills hosts.yaml.
type hostInput struct{ Name, Rack, BMC, MAC, BootMode string }

func (s *show) hostManifests() (string, error) {
	data := struct {
		Username, Password, CA string
		Hosts                  []hostInput
	}{Username: datacentre.Username, Password: s.password, CA: string(s.dc.Authority.PEM())}
	for _, server := range s.dc.Servers {
		mode := "BIOS"
		if server.Spec.Firmware == qemu.UEFI {
			mode = "UEFI"
		}
		data.Hosts = append(data.Hosts, hostInput{
			Name: server.Spec.Name, Rack: rackOf[server.Spec.Name], BMC: server.BMC.Address(), MAC: server.MAC.String(), BootMode: mode,
		})
	}
	return s.render("hosts.yaml", data)
}

func (s *show) clusterManifests() (string, error) {
	return s.render("cluster.yaml", map[string]any{"ImageURL": s.image.url, "Checksum": s.image.checksum, "Machines": s.Machines})
}

// render writes a manifest to the demo's directory and returns its path.
func (s *show) render(name string, data any) (string, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"indent": func(text string) string { return "    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") },
	}).ParseFS(manifests, "manifests/"+name)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return "", err
	}
	path := filepath.Join(s.dir, name)
	return path, os.WriteFile(path, out.Bytes(), 0o600)
}

// emptyAgentImage stands for kernel and initramfs where nobody runs them.
func (s *show) emptyAgentImage() (string, error) {
	dir := filepath.Join(s.dir, "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"vmlinuz", "initramfs.cpio.zst"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("simulated "+name), 0o600); err != nil {
			return "", fmt.Errorf("agent image: %w", err)
		}
	}
	return dir, nil
}

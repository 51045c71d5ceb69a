// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"embed"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/qemu"
)

//go:embed manifests
var manifests embed.FS

// A place is a server with the rack it stands in and what its host says of it.
type place struct {
	rack string
	// method is its bootMethod; empty: PXE.
	method string
	// extra servers are only there when they are named.
	extra bool
	spec  datacenter.ServerSpec
}

// places are those of the demo: one server with BIOS, one with UEFI and the NIC and the
// disk of a real server, one spare; and two that boot without PXE.
func places() []place {
	return []place{
		{rack: "rack-a", spec: datacenter.ServerSpec{Name: "bios-1", Firmware: qemu.BIOS}},
		{rack: "rack-b", spec: datacenter.ServerSpec{Name: "uefi-1", Firmware: qemu.UEFI, NIC: qemu.E1000E, Disk: qemu.NVMe}},
		{rack: "rack-a", spec: datacenter.ServerSpec{Name: "spare-1", Firmware: qemu.BIOS}},
		{rack: "rack-a", method: "VirtualMedia", extra: true, spec: datacenter.ServerSpec{
			Name: "media-1", Firmware: qemu.UEFI, Disk: qemu.NVMe, Personality: personality.Standard(), Media: netip.MustParsePrefix("10.77.0.250/24"),
		}},
		{rack: "rack-b", method: "HTTP", extra: true, spec: datacenter.ServerSpec{
			Name: "http-1", Firmware: qemu.UEFI, Personality: personality.Standard(), NoPXE: true,
		}},
	}
}

// placeOf is the server of that name.
func placeOf(name string) (place, bool) {
	all := places()
	at := slices.IndexFunc(all, func(p place) bool { return p.spec.Name == name })
	if at < 0 {
		return place{}, false
	}
	return all[at], true
}

// servers are those to use.
func (s *show) servers() []datacenter.ServerSpec {
	var specs []datacenter.ServerSpec
	for _, p := range places() {
		if slices.Contains(s.Servers, p.spec.Name) {
			specs = append(specs, p.spec)
		}
	}
	for i := range specs {
		if s.SwapHardware {
			swapHardware(&specs[i])
		}
		specs[i].Kind = datacenter.Virtual
		if s.Simulated {
			specs[i].Kind = datacenter.Simulated
		}
		if slices.Contains(s.WithoutDisk, specs[i].Name) {
			specs[i].DiskBytes = -1
		}
	}
	return specs
}

// swapHardware exchanges virtio for e1000e and NVMe, and back.
func swapHardware(spec *datacenter.ServerSpec) {
	if spec.NIC == qemu.E1000E {
		spec.NIC, spec.Disk = qemu.VirtioNet, qemu.VirtioBlk
		return
	}
	spec.NIC, spec.Disk = qemu.E1000E, qemu.NVMe
}

// hostInput fills hosts.yaml.
type hostInput struct{ Name, Rack, BMC, MAC, BootMode, BootMethod, Cleaning string }

func (s *show) hostManifests() (string, error) {
	data := struct {
		Username, Password, CA string
		Hosts                  []hostInput
	}{Username: datacenter.Username, Password: s.password, CA: string(s.dc.Authority.PEM())}
	for _, server := range s.dc.Servers {
		mode := "BIOS"
		if server.Spec.Firmware == qemu.UEFI {
			mode = "UEFI"
		}
		p, _ := placeOf(server.Spec.Name)
		data.Hosts = append(data.Hosts, hostInput{
			Name: server.Spec.Name, Rack: p.rack, BMC: server.BMC.Address(), MAC: server.MAC.String(), BootMode: mode,
			BootMethod: p.method, Cleaning: s.Cleaning,
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

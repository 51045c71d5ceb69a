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

// demoServer is a server with its rack and the boot method of its host.
type demoServer struct {
	rack string
	// method is the bootMethod; "" means PXE.
	method string
	// optional servers are used only if --servers names them.
	optional bool
	spec     datacenter.ServerSpec
}

// demoServers returns one server with BIOS, one with UEFI and the NIC and disk of a real server, one
// spare, and two that boot without PXE.
func demoServers() []demoServer {
	return []demoServer{
		{rack: "rack-a", spec: datacenter.ServerSpec{Name: "bios-1", Firmware: qemu.BIOS}},
		{rack: "rack-b", spec: datacenter.ServerSpec{Name: "uefi-1", Firmware: qemu.UEFI, NIC: qemu.E1000E, Disk: qemu.NVMe}},
		{rack: "rack-a", spec: datacenter.ServerSpec{Name: "spare-1", Firmware: qemu.BIOS}},
		{rack: "rack-a", method: "VirtualMedia", optional: true, spec: datacenter.ServerSpec{
			Name: "media-1", Firmware: qemu.UEFI, Disk: qemu.NVMe, Personality: personality.Standard(), Media: netip.MustParsePrefix("10.77.0.250/24"),
		}},
		{rack: "rack-b", method: "HTTP", optional: true, spec: datacenter.ServerSpec{
			Name: "http-1", Firmware: qemu.UEFI, Personality: personality.Standard(), NoPXE: true,
		}},
	}
}

// serverNamed returns the server of that name, or the zero value.
func serverNamed(name string) demoServer {
	for _, p := range demoServers() {
		if p.spec.Name == name {
			return p
		}
	}
	return demoServer{}
}

// servers returns the servers to use.
func (s *show) servers() []datacenter.ServerSpec {
	var specs []datacenter.ServerSpec
	for _, p := range demoServers() {
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

// swapHardware exchanges virtio with e1000e and NVMe.
func swapHardware(spec *datacenter.ServerSpec) {
	if spec.NIC == qemu.E1000E {
		spec.NIC, spec.Disk = qemu.VirtioNet, qemu.VirtioBlk
		return
	}
	spec.NIC, spec.Disk = qemu.E1000E, qemu.NVMe
}

// hostInput is the input of a host in hosts.yaml.
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
		p := serverNamed(server.Spec.Name)
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

// emptyAgentImage writes placeholders for kernel and initramfs, which simulated servers do not run.
func (s *show) emptyAgentImage() (string, error) {
	dir := filepath.Join(s.dir, "agent")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	for _, name := range []string{"vmlinuz", "initramfs.cpio.zst"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("simulated "+name), 0o600); err != nil {
			return "", fmt.Errorf("write the agent image: %w", err)
		}
	}
	return dir, nil
}

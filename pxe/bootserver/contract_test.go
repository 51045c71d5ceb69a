// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver_test

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	pin "github.com/pin/tftp/v3"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/script"
)

// Every file that a DHCP reply names can be fetched from a running server, and BootFromDisk is
// refused: for all captured requests, modes, plans and loaders.
func TestEveryRowCanBeFetched(t *testing.T) {
	var files pxe.Files
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(path, []byte("the kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	kernel, err := files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	host := pxe.Host{Namespace: "default", Name: "h", MAC: hostMAC,
		Subnet: netip.MustParsePrefix("127.0.0.0/8"), Address: netip.MustParsePrefix("127.0.0.1/8"), // where this test fetches from
		Plan: pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{Kernel: kernel, Server: "192.0.2.1:8843"}}}
	r := startFor(t, &files, pxe.Table{hostMAC.String(): host})
	id := dhcp.Identity{Address: netip.MustParseAddr("127.0.0.1"), BaseURL: r.base, Loaders: dhcp.DefaultLoaders()}

	named := map[string]bool{}
	for _, name := range namedBy(t, id, host) {
		named[name] = true
	}
	for name := range named {
		if strings.HasSuffix(name, dhcp.BootFromDisk) {
			r.refused(t, name)
			continue
		}
		if text := r.fetch(t, name); text == "" {
			t.Errorf("%s is empty", name)
		}
	}
	for _, loader := range dhcp.DefaultLoaders().Names() {
		if !named[loader] {
			t.Errorf("no reply names %s; replies name %v", loader, slices.Sorted(maps.Keys(named)))
		}
	}
	for _, name := range []string{dhcp.BootFromDisk, r.base + "/" + dhcp.BootFromDisk, r.base + "/snponly.efi", r.base + "/ipxe-arm64.efi",
		r.base + "/boot/" + hostMAC.String() + "/script.ipxe"} {
		if !named[name] {
			t.Errorf("no reply names %s", name)
		}
	}
}

// The files that shim and GRUB request lead to the host's script, and from there to kernel and
// initramfs, all by TFTP. Other hosts cannot read the script.
func TestSignedLoaders(t *testing.T) {
	var files pxe.Files
	path := filepath.Join(t.TempDir(), "vmlinuz")
	if err := os.WriteFile(path, []byte("the kernel"), 0o644); err != nil {
		t.Fatal(err)
	}
	kernel, err := files.Add(path)
	if err != nil {
		t.Fatal(err)
	}
	mac := func(n byte) net.HardwareAddr { return net.HardwareAddr{0x52, 0x54, 0, 0, 0, n} }
	host := func(n byte, loader pxe.Loader, address string, plan pxe.PlanKind) pxe.Host {
		return pxe.Host{MAC: mac(n), Loader: loader, Address: netip.MustParsePrefix(address + "/8"),
			Plan: pxe.Plan{Kind: plan, Agent: pxe.AgentBoot{Kernel: kernel, Server: "192.0.2.1:8843", Token: "secret"}}}
	}
	table := pxe.Table{}
	for _, h := range []pxe.Host{host(1, pxe.SignedLoader, "127.0.0.1", pxe.Agent), host(2, pxe.SignedLoader, "127.0.0.2", pxe.Agent),
		host(3, pxe.SmallLoader, "127.0.0.1", pxe.Agent), host(4, pxe.SignedLoader, "127.0.0.2", pxe.LocalDisk), host(5, pxe.SignedLoader, "127.0.0.1", pxe.None)} {
		table[h.MAC.String()] = h
	}
	r := startFor(t, &files, table)
	for name, want := range map[string]string{
		"shimx64.efi": "shim", "grubx64.efi": "GRUB", "/grub/grub.cfg": "/boot/${net_default_mac}/script.grub",
		script.ScriptGRUB(mac(1)): "ingot.token=secret", script.ScriptGRUB(mac(4)): "chainloader", "/" + kernel.Path(): "the kernel",
	} {
		if got := r.fetch(t, name); !strings.Contains(got, want) {
			t.Errorf("%s is %q", name, got)
		}
	}
	for _, name := range []string{"grub/x86_64-efi/grub.cfg", script.ScriptGRUB(mac(2)), script.ScriptGRUB(mac(3)), script.ScriptGRUB(mac(5)), script.ScriptGRUB(mac(6)),
		"files/" + kernel.SHA256 + "/other", "boot/x/script.grub"} {
		r.refused(t, name)
	}
}

// namedBy returns the boot files of all replies.
func namedBy(t *testing.T, id dhcp.Identity, host pxe.Host) []string {
	t.Helper()
	requests, err := filepath.Glob("../dhcp/testdata/*.request")
	if err != nil || len(requests) < 15 {
		t.Fatalf("%d requests, %v", len(requests), err)
	}
	var out []string
	for _, request := range requests {
		name := strings.TrimSuffix(filepath.Base(request), ".request")
		decide := dhcp.Reply
		if strings.HasSuffix(name, ".binl") {
			decide = dhcp.ReplyBINL
		}
		for _, host := range variants(host) {
			q := dhcp.Query{Packet: capturedRequest(t, name), From: netip.MustParseAddrPort("127.0.0.1:68")}
			a, err := decide(id, pxe.Table{hostMAC.String(): host}, q)
			if err != nil {
				t.Fatal(err)
			}
			if a.Packet == nil {
				continue
			}
			reply, err := dhcpv4.FromBytes(a.Packet)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{reply.BootFileNameOption(), reply.BootFileName} {
				if file != "" {
					out = append(out, file)
				}
			}
		}
	}
	return out
}

// variants returns all combinations of host properties that the table depends on.
func variants(host pxe.Host) []pxe.Host {
	var out []pxe.Host
	for _, mode := range []pxe.Mode{pxe.Reserve, pxe.Proxy} {
		for _, plan := range []pxe.PlanKind{pxe.None, pxe.LocalDisk, pxe.Agent} {
			for _, loader := range []pxe.Loader{pxe.SmallLoader, pxe.FullLoader, pxe.SignedLoader} {
				host.Mode, host.Plan.Kind, host.Loader = mode, plan, loader
				out = append(out, host)
			}
		}
	}
	return out
}

// refused fetches a file that must be refused at once.
func (r running) refused(t *testing.T, file string) {
	t.Helper()
	if strings.HasPrefix(file, "http://") {
		client := http.Client{Timeout: patience}
		resp, err := client.Get(file)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d", file, resp.StatusCode)
		}
		return
	}
	client, err := pin.NewClient(r.tftp)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Receive(file, "octet"); err == nil || !strings.Contains(err.Error(), "code: 1,") {
		t.Errorf("%s: %v, want that it is not found", file, err)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/uki"
)

// Debian's ovmf has UEFI variables in which a key of its own is PK, KEK and db, and that
// key, for tests such as these: nobody else's signature starts anything there.
const (
	ownVariables   = "/usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd"
	ownKey         = "/usr/share/ovmf/PkKek-1-snakeoil.key"
	ownCertificate = "/usr/share/ovmf/PkKek-1-snakeoil.pem"
	ownPassphrase  = "pass:snakeoil"
)

// signed signs an image as an operator does.
func signed(t *testing.T, image []byte) []byte {
	t.Helper()
	key := filepath.Join(t.TempDir(), "db.key")
	in, out := writeFile(t, "agent.efi", image), filepath.Join(t.TempDir(), "agent.signed.efi")
	for _, command := range [][]string{
		{"openssl", "rsa", "-in", ownKey, "-passin", ownPassphrase, "-out", key},
		{"sbsign", "--key", key, "--cert", ownCertificate, "--output", out, in},
	} {
		if text, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s (Debian: packages openssl, sbsigntool): %v\n%s", command[0], err, text)
		}
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if uki.IsSigned(image) || !uki.IsSigned(b) {
		t.Fatal("the signature is not seen")
	}
	return b
}

// TestSecureBoot: firmware that knows one key starts the image that is signed by it,
// with the command line that is signed with it, and refuses one that is not.
func TestSecureBoot(t *testing.T) {
	boot := func(t *testing.T, image []byte, manager *inspector) (*segment, *qemu.VM) {
		var files pxe.Files
		host := unifiedHost(t, &files, image, manager.token)
		seg := startSegment(t, host, &files, nil)
		vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: qemu.UEFI, SecureBoot: true, Variables: ownVariables, NICs: []qemu.NIC{{NoROM: true}}, NoPXE: true})
		if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
			t.Fatal(err)
		}
		seg.record.restart()
		if err := vm.PowerOn(context.Background()); err != nil {
			t.Fatal(err)
		}
		return seg, vm
	}
	t.Run("signed", func(t *testing.T) {
		needs(t, "all")
		cert, pin := newManagerKey(t)
		manager := newInspector()
		seg, vm := boot(t, signed(t, unifiedImage(t, pin)), manager)
		serveManager(t, seg, cert, manager)
		inspected(t, seg, vm, manager)
	})
	t.Run("unsigned", func(t *testing.T) {
		needs(t, "all")
		_, pin := newManagerKey(t)
		seg, vm := boot(t, unifiedImage(t, pin), newInspector())
		ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
		defer cancel()
		text, err := waitSerial(ctx, vm, "Access Denied")
		seg.record.log(t)
		if err != nil {
			t.Fatalf("the firmware does not refuse the image: %v; the console ends in:\n%s", err, tail(text, 3000))
		}
		got := seg.record.stages()
		if !inOrder(got, []string{"File agent.efi"}) || strings.Contains(strings.Join(got, "\n"), "Ack agent") {
			t.Errorf("boot went by\n  %s", strings.Join(got, "\n  "))
		}
	})
}

// microsoftVariables are UEFI variables as servers are delivered: Microsoft's keys, and
// Secure Boot on.
const microsoftVariables = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"

// signedLoaders are what Microsoft's keys vouch for.
func signedLoaders(t *testing.T) bootserver.Signed {
	t.Helper()
	read := func(name string) []byte {
		b, err := os.ReadFile(agentFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return bootserver.Signed{Shim: read("shimx64.efi"), GRUB: read("grubx64.efi")}
}

// TestSecureBootMicrosoft: firmware with Microsoft's keys loads shim by TFTP, that one
// GRUB, and GRUB the agent's kernel, which Debian has signed. iPXE, which
// nobody has signed, is refused.
func TestSecureBootMicrosoft(t *testing.T) {
	power := func(t *testing.T, loader pxe.Loader, manager *inspector, pin string) (*segment, *qemu.VM) {
		t.Helper()
		var files pxe.Files
		add := func(path string) pxe.File {
			f, err := files.Add(path)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		host := newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
			Kernel: add(agentFile(t, "vmlinuz")), Initrds: []pxe.File{add(agentFile(t, "initramfs.cpio.zst"))},
			Server: "192.0.2.1:8843", Pin: pin, Token: agentapi.Sensitive(manager.token), Arguments: []string{"console=ttyS0,115200"},
		}})
		host.Loader = loader
		seg := startSegment(t, host, &files, nil, func(c *bootserver.Config) { c.Signed = signedLoaders(t) })
		vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: qemu.UEFI, SecureBoot: true, Variables: microsoftVariables, NICs: []qemu.NIC{{NoROM: true}}})
		if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
			t.Fatal(err)
		}
		seg.record.restart()
		if err := vm.PowerOn(context.Background()); err != nil {
			t.Fatal(err)
		}
		return seg, vm
	}
	t.Run("signed", func(t *testing.T) {
		needs(t, "all")
		cert, pin := newManagerKey(t)
		manager := newInspector()
		seg, vm := power(t, pxe.SignedLoader, manager, pin)
		serveManager(t, seg, cert, manager)
		inspected(t, seg, vm, manager)
		want := []string{"Offer UEFI x64", "Ack UEFI x64", "Loader shimx64.efi", "Loader grubx64.efi", "Loader /grub/grub.cfg",
			"Script Agent", "File vmlinuz", "File initramfs.cpio.zst", "Ack agent"}
		got := seg.record.stages()
		if !inOrder(got, want) || strings.Contains(strings.Join(got, "\n"), string(pxe.StageFailed)) {
			t.Errorf("boot went by\n  %s\nwant, in this order and without a failure,\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	})
	t.Run("unsigned", func(t *testing.T) {
		needs(t, "all")
		_, pin := newManagerKey(t)
		seg, vm := power(t, pxe.SmallLoader, newInspector(), pin)
		ctx, cancel := context.WithTimeout(t.Context(), bootDeadline)
		defer cancel()
		text, err := waitSerial(ctx, vm, "Access Denied")
		seg.record.log(t)
		if err != nil {
			t.Fatalf("the firmware does not refuse iPXE: %v; the console ends in:\n%s", err, tail(text, 3000))
		}
		if got := seg.record.stages(); !inOrder(got, []string{"Loader snponly.efi"}) || strings.Contains(strings.Join(got, "\n"), "Script") {
			t.Errorf("boot went by\n  %s", strings.Join(got, "\n  "))
		}
	})
}

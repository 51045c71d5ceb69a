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

	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
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

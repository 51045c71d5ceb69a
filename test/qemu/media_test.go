// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/pxe/media"
)

// oneDisc is the directory of one ticket.
type oneDisc struct {
	ticket string
	host   pxe.Host
}

func (d oneDisc) HostByToken(ticket string) (pxe.Host, bool) { return d.host, ticket == d.ticket }

// emulatedBMC is a BMC with virtual media and the driver's connection to it.
func emulatedBMC(t *testing.T) (*labbmc.BMC, *labbmc.Bench, bmc.Conn) {
	t.Helper()
	authority, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	p, ok := personality.Named("standard")
	if !ok {
		t.Fatal("no such personality")
	}
	bench := &labbmc.Bench{}
	lab, err := labbmc.Start(labbmc.Config{Authority: authority, Machine: bench, Username: "root", Password: "calvin", Personality: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Close() })
	conn, err := redfish.Dial(t.Context(), bmc.Target{Address: lab.Address(), Username: "root", Password: "calvin", InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return lab, bench, conn
}

// fetchMedia is the BMC's part: it reads the image that it was told of, over the
// network, and shows it to the server.
func fetchMedia(t *testing.T, seg *segment, lab *labbmc.BMC) string {
	t.Helper()
	stack, err := network.NewStack(seg.Switch, network.StackConfig{Name: "bmc", Address: netip.MustParsePrefix("192.0.2.200/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	client := &http.Client{Transport: &http.Transport{DialContext: stack.DialContext}, Timeout: time.Minute}
	for _, slot := range lab.Media() {
		if !slot.Inserted {
			continue
		}
		answer, err := client.Get(slot.Image)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		path := filepath.Join(t.TempDir(), "agent.iso")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(f, answer.Body); err != nil || answer.StatusCode != http.StatusOK || n != answer.ContentLength {
			t.Fatalf("%d bytes of %d, status %d, %v", n, answer.ContentLength, answer.StatusCode, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatal("no image is in any drive")
	return ""
}

// mediaBoot has a BMC show a server the CD image of a host and boots it.
func mediaBoot(t *testing.T, image []byte, token string, cfg qemu.Config) (*segment, *qemu.VM) {
	t.Helper()
	template, err := media.New(image)
	if err != nil {
		t.Fatal(err)
	}
	var files pxe.Files
	disc := oneDisc{ticket: "the-ticket-of-this-boot", host: unifiedHost(t, &files, image, token)}
	// What is on the network does not boot the server: it knows no MAC address.
	unknownClient := newHost(pxe.Plan{Kind: pxe.LocalDisk})
	seg := startSegment(t, unknownClient, &files, nil, func(c *bootserver.Config) { c.MediaDirectory, c.MediaTemplate = disc, template })
	lab, bench, conn := emulatedBMC(t)
	if _, err := conn.InsertMedia(t.Context(), bmc.MediaCD, seg.server.BaseURL()+pxe.MediaPath(disc.ticket)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.ModeUEFI}); err != nil {
		t.Fatal(err)
	}
	if got := bench.Boot(); got.Target != labbmc.TargetCD || got.Enabled != labbmc.Once {
		t.Fatalf("the BMC is to boot from %+v", got)
	}
	cfg.CD, cfg.Firmware, cfg.NICs = fetchMedia(t, seg, lab), qemu.UEFI, []qemu.NIC{{NoROM: true}}
	vm := newVM(t, seg, disc.host.MAC, cfg)
	if err := vm.SetBoot(qemu.Boot{Device: qemu.CD, Once: true}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	if err := vm.PowerOn(context.Background()); err != nil {
		t.Fatal(err)
	}
	return seg, vm
}

// TestVirtualMedia: the BMC fetches the CD image that was made for the host, and the
// server boots the agent from it: no PXE, no TFTP, and no word from DHCP but an address.
// Server and token are the image's own.
func TestVirtualMedia(t *testing.T) {
	needs(t, "all")
	cert, pin := newManagerKey(t)
	manager := newInspector()
	seg, vm := mediaBoot(t, unifiedImage(t, pin), manager.token, qemu.Config{})
	serveManager(t, seg, cert, manager)
	inspected(t, seg, vm, manager)
	if got := seg.record.stages(); !inOrder(got, []string{"Ack agent"}) {
		t.Errorf("boot went by %q", got)
	}
}

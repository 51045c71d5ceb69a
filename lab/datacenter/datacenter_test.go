// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package datacenter_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/network"
)

// start creates a datacenter of simulated servers. Unix sockets need a short path.
func start(t *testing.T, specs ...datacenter.ServerSpec) *datacenter.Datacenter {
	t.Helper()
	dir, err := os.MkdirTemp("", "dc-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i := range specs {
		specs[i].Kind = datacenter.Simulated
	}
	dc, err := datacenter.Start(datacenter.Config{Dir: dir, Password: "secret", Servers: specs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dc.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return dc
}

func TestServersDiffer(t *testing.T) {
	dc := start(t, datacenter.ServerSpec{Name: "a"}, datacenter.ServerSpec{Name: "b", DiskBytes: -1})
	a, b := dc.Server("a"), dc.Server("b")
	if a == nil || b == nil || dc.Server("c") != nil {
		t.Fatalf("servers a %v, b %v, c %v", a, b, dc.Server("c"))
	}
	if a.MAC.String() == b.MAC.String() || a.BMC.Address() == b.BMC.Address() {
		t.Errorf("two servers share MAC %s/%s or BMC %s/%s", a.MAC, b.MAC, a.BMC.Address(), b.BMC.Address())
	}
	if a.Powered() || b.Powered() {
		t.Error("a server is on after the start")
	}
	if b.DiskPath != "" {
		t.Errorf("b has the disk %s, want none", b.DiskPath)
	}
	if info, err := os.Stat(a.DiskPath); err != nil || info.Size() != 10<<30 {
		t.Errorf("disk of a: %v, %v; want 10 GiB", info, err)
	}
}

// TestProtocols shows that the address has the BMC's protocol, and that a BMC with both protocols uses
// one port.
func TestProtocols(t *testing.T) {
	for _, tt := range []struct {
		protocol datacenter.Protocol
		scheme   string
		redfish  bool
		ipmi     bool
	}{
		{datacenter.Redfish, "redfish://", true, false},
		{datacenter.RedfishHTTP, "redfish+http://", true, false},
		{datacenter.IPMI, "ipmi://", false, true},
		{datacenter.Both, "redfish://", true, true},
	} {
		t.Run(tt.scheme+string(tt.protocol), func(t *testing.T) {
			s := start(t, datacenter.ServerSpec{Name: "a", DiskBytes: -1, Protocol: tt.protocol}).Server("a")
			if (s.BMC != nil) != tt.redfish || (s.IPMI != nil) != tt.ipmi {
				t.Fatalf("Redfish %v, IPMI %v", s.BMC != nil, s.IPMI != nil)
			}
			if got, want := s.Address(), tt.scheme+s.HostPort(); got != want {
				t.Errorf("address %s, want %s", got, want)
			}
			if tt.protocol == datacenter.Both && s.IPMI.Address() != "ipmi://"+s.HostPort() {
				t.Errorf("IPMI at %s, and Redfish at %s", s.IPMI.Address(), s.HostPort())
			}
		})
	}
}

func TestDiskState(t *testing.T) {
	dc := start(t, datacenter.ServerSpec{Name: "a", DiskBytes: 64 << 20}, datacenter.ServerSpec{Name: "b", DiskBytes: -1})
	server := dc.Server("a")
	look := func(want datacenter.DiskState) {
		t.Helper()
		got, err := server.Disk()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("disk (-want +got):\n%s", diff)
		}
	}
	look(datacenter.DiskState{})
	dev, err := block.OpenFile(server.DiskPath)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dev.Close() }()
	m := agentapi.Marker{InstanceID: "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa", Attempt: 2, Complete: true}
	if err := marker.Write(dev, m); err != nil {
		t.Fatal(err)
	}
	look(datacenter.DiskState{Marker: &m})
	if _, err := dev.WriteAt([]byte{0x55, 0xaa}, 510); err != nil {
		t.Fatal(err)
	}
	look(datacenter.DiskState{Marker: &m, PartitionTable: true})
	if state, err := dc.Server("b").Disk(); err != nil || state != (datacenter.DiskState{}) {
		t.Errorf("a server without a disk shows %+v, %v", state, err)
	}
}

// TestUplinkJoinsTheNetwork connects the switch of another process.
func TestUplinkJoinsTheNetwork(t *testing.T) {
	dc := start(t)
	here, err := network.NewStack(dc.Switch, network.StackConfig{Name: "here", Address: netip.MustParsePrefix("10.77.0.9/24")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = here.Close() }()
	listener, err := here.ListenTCP(80)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if conn, err := listener.Accept(); err == nil {
			accepted <- conn
		}
	}()

	remote := network.NewSwitch()
	done, err := remote.DialUnix("uplink", dc.Uplink())
	if err != nil {
		t.Fatal(err)
	}
	there, err := network.NewStack(remote, network.StackConfig{Name: "there", Address: netip.MustParsePrefix("10.77.0.10/24")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := there.DialContext(ctx, "tcp", "10.77.0.9:80")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case peer := <-accepted:
		_ = peer.Close()
	case <-ctx.Done():
		t.Fatal("no connection")
	}
	_ = conn.Close()
	_ = there.Close()
	if err := remote.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	<-done
}

func TestSmallImageChecksum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x", "image.zst")
	checksum, err := datacenter.WriteSmallImage(path)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(packed)
	if want := "sha256:" + hex.EncodeToString(sum[:]); checksum != want {
		t.Errorf("checksum %s, want %s", checksum, want)
	}
}

func TestImageRelease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image.zst")
	if _, err := (datacenter.Image{Bytes: 2 << 20, Noise: 1 << 20, Release: "v1.36.3"}).Write(path); err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	raw, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) != 2<<20 || raw[510] != 0x55 || raw[511] != 0xaa || !bytes.Contains(raw[:1<<20], []byte("v1.36.3\n")) {
		t.Errorf("image of %d bytes has no boot code or no label", len(raw))
	}
	if !bytes.Equal(raw[agentapi.MarkerOffset:agentapi.MarkerOffset+agentapi.MarkerSize], make([]byte, agentapi.MarkerSize)) {
		t.Error("the marker's area is not empty")
	}
	if _, err := (datacenter.Image{Bytes: 1 << 20, Noise: 1}).Write(path); err == nil {
		t.Error("no error for an image smaller than its noise")
	}
}

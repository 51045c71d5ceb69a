// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

const agentPort = 8843

// inspector is a manager that knows one thing: to have a server inspected. It
// keeps what it is told; everything beyond that is the session server's.
type inspector struct {
	token   string
	session chan agentapi.SessionRequest
	report  chan agentapi.Report
}

func (m *inspector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(agentapi.TokenHeader) != "Bearer "+m.token || len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "no token or no key", http.StatusUnauthorized)
		return
	}
	var answer any
	switch r.URL.Path {
	case agentapi.PathSession:
		var s agentapi.SessionRequest
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.session <- s
		answer = agentapi.Session{Now: time.Now(), Host: "default/server-1"}
	case agentapi.PathOrder:
		answer = agentapi.Order{Kind: agentapi.Inspect, ID: "order-1"}
	case agentapi.PathProgress:
		answer = agentapi.ProgressReply{}
	case agentapi.PathReport:
		var rep agentapi.Report
		if err := json.NewDecoder(r.Body).Decode(&rep); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.report <- rep
		answer = agentapi.Acknowledgement{Action: agentapi.PowerOff}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// newManagerKey makes a certificate and the pin of its key.
func newManagerKey(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	model := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, model, model, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256(spki)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, "sha256/" + base64.RawURLEncoding.EncodeToString(digest[:])
}

// serveManager serves the agent API on the segment until the test ends.
func serveManager(t *testing.T, seg *segment, cert tls.Certificate, h http.Handler) {
	t.Helper()
	l, err := seg.stack.ListenTCP(agentPort)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
}

// TestAgentLine boots the agent's own image from the network and has it post
// the server's inventory, on virtio hardware with BIOS, and on an Intel card
// and an NVMe disk with UEFI; and on a server whose disk its kernel has no driver for.
func TestAgentLine(t *testing.T) {
	for _, tc := range []struct {
		name     string
		level    string
		firmware qemu.Firmware
		fwName   string
		nic      qemu.NIC
		disk     qemu.DiskModel
		// without is a driver that the kernel does not load, for the controller with ID blind.
		without, blind string
	}{
		{"BIOS and virtio", "all", qemu.BIOS, "BIOS", qemu.NIC{}, qemu.VirtioBlk, "", ""},
		{"UEFI, e1000e and NVMe", "all", qemu.UEFI, "UEFI", qemu.NIC{Model: qemu.E1000E}, qemu.NVMe, "", ""},
		{"no driver for NVMe", "all", qemu.BIOS, "BIOS", qemu.NIC{}, qemu.NVMe, "nvme", "1b36:0010"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			needs(t, tc.level)
			var files pxe.Files
			add := func(name string) pxe.File {
				f, err := files.Add(agentFile(t, name))
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			cert, pin := newManagerKey(t)
			manager := &inspector{token: "token-of-this-boot",
				session: make(chan agentapi.SessionRequest, 100), report: make(chan agentapi.Report, 100)}
			host := newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
				Kernel: add("vmlinuz"), Initrds: []pxe.File{add("initramfs.cpio.zst")},
				Server: "192.0.2.1:8843", Pin: pin, Token: agentapi.Sensitive(manager.token),
				Arguments: []string{"console=ttyS0,115200", "module_blacklist=" + tc.without},
			}})
			seg := startSegment(t, host, &files, nil)
			serveManager(t, seg, cert, manager)
			disk := filepath.Join(t.TempDir(), "disk.raw")
			const diskSize = 64 << 20
			makeDisk(t, disk, diskSize)
			vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: tc.firmware, NICs: []qemu.NIC{tc.nic},
				Disks: []qemu.Disk{{Path: disk, Model: tc.disk, Serial: "DISK-1"}}, SerialNumber: "SN-1"})
			if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
				t.Fatal(err)
			}
			seg.record.restart()
			began := time.Now()
			if err := vm.PowerOn(context.Background()); err != nil {
				t.Fatal(err)
			}
			found := await(t, vm, manager.session)
			seg.record.log(t)
			t.Logf("%6.1f s  session", time.Since(began).Seconds())
			rep := await(t, vm, manager.report)
			t.Logf("%6.1f s  report", time.Since(began).Seconds())
			if rep.Outcome != agentapi.Succeeded || rep.OrderID != "order-1" {
				t.Errorf("report %+v", rep)
			}
			hw := found.Hardware
			if hw.Serial != "SN-1" || hw.UUID != "4c4c4544-0000-2010-8020-80c04f202020" || hw.Firmware != tc.fwName {
				t.Errorf("serial %q, UUID %q, firmware %q", hw.Serial, hw.UUID, hw.Firmware)
			}
			if !slices.ContainsFunc(hw.NICs, func(n agentapi.NIC) bool { return n.MAC == host.MAC.String() }) {
				t.Errorf("the boot card is not among %+v", hw.NICs)
			}
			seen := slices.ContainsFunc(hw.Disks, func(d agentapi.Disk) bool { return d.Serial == "DISK-1" && d.SizeBytes == diskSize })
			if seen != (tc.blind == "") {
				t.Errorf("the disk is seen: %t, among %+v", seen, hw.Disks)
			}
			var blind string
			for _, c := range hw.StorageWithoutDriver {
				blind += c.ID
			}
			if blind != tc.blind {
				t.Errorf("without a driver: %+v, want %q", hw.StorageWithoutDriver, tc.blind)
			}
			select { // the acknowledgement said so
			case <-orClosed(vm.Ended()):
			case <-time.After(bootDeadline):
				t.Error("the server did not go off")
			}
		})
	}
}

// await takes what the manager was told, or ends the test with the console.
func await[T any](t *testing.T, vm *qemu.VM, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(bootDeadline):
		t.Fatalf("the agent said nothing; the console ends in:\n%s", tail(console(vm), 3000))
		panic("unreachable")
	}
}

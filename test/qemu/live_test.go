// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// livePort is where the live system's files and data are.
const livePort = 8080

// liveInitramfs is the agent's with testdata/live for its /init: the kernel unpacks one
// archive after the other.
func liveInitramfs(t *testing.T) []byte {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./testdata/live")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the live system: %v\n%s", err, out)
	}
	program, err := os.ReadFile(bin)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := os.ReadFile(agentFile(t, "initramfs.cpio.zst"))
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.NewBuffer(modules)
	pad(b)
	writeEntry(b, entry{name: "init", mode: 0o100755, data: program})
	writeEntry(b, entry{name: "TRAILER!!!"})
	return b.Bytes()
}

// liveManager orders a live system, and gives it its data once.
type liveManager struct {
	token          string
	kernel, initrd []byte
	data           []byte
	fetched        atomic.Bool
	reports        chan agentapi.Report
}

func (m *liveManager) file(name string, content []byte) agentapi.LiveFile {
	return agentapi.LiveFile{URL: fmt.Sprintf("http://192.0.2.1:%d/%s", livePort, name), Checksum: fmt.Sprintf("sha256:%x", sha256.Sum256(content))}
}

// ServeHTTP is the agent API.
func (m *liveManager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(agentapi.TokenHeader) != "Bearer "+m.token || len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "no token or no key", http.StatusUnauthorized)
		return
	}
	var answer any = agentapi.ProgressReply{}
	switch r.URL.Path {
	case agentapi.PathSession:
		answer = agentapi.Session{Now: time.Now(), Host: "default/server-1"}
	case agentapi.PathOrder:
		answer = agentapi.Order{Kind: agentapi.Install, ID: "order-1", InstanceID: "i1", Attempt: 1, Install: &agentapi.InstallOrder{
			RootDisk: agentapi.DiskRef{Serial: "DISK-1"},
			Live:     &agentapi.LiveOrder{Kernel: m.file("kernel", m.kernel), Initrd: m.file("initrd", m.initrd)},
		}}
	case agentapi.PathLive:
		answer = agentapi.LiveBoot{CommandLine: agentapi.Sensitive(fmt.Sprintf("console=ttyS0,115200 data=http://192.0.2.1:%d/data", livePort))}
	case agentapi.PathReport:
		var rep agentapi.Report
		_ = json.NewDecoder(r.Body).Decode(&rep)
		m.reports <- rep
		answer = agentapi.Acknowledgement{Action: agentapi.PowerOff}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// files is what is asked for without TLS.
func (m *liveManager) files() http.Handler {
	mux := http.NewServeMux()
	for name, content := range map[string][]byte{"kernel": m.kernel, "initrd": m.initrd} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		})
	}
	mux.HandleFunc("GET /data", func(w http.ResponseWriter, _ *http.Request) {
		m.fetched.Store(true)
		_, _ = w.Write(m.data)
	})
	return mux
}

// liveDirectory boots the agent until the live system has its data, and its disk then.
type liveDirectory struct {
	host pxe.Host
	m    *liveManager
}

func (d liveDirectory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	host, ok := pxe.Table{d.host.MAC.String(): d.host}.Lookup(mac)
	if d.m.fetched.Load() {
		host.Plan = pxe.Plan{Kind: pxe.LocalDisk}
	}
	return host, ok
}

// liveDiskBoots is what the disk that the live system has written shows.
const liveDiskBoots = "LIVE-DISK-BOOTS"

// TestLiveSystem boots the agent from the network, which starts another kernel by kexec;
// that fetches its data, writes itself to the disk and reboots, and the disk boots.
func TestLiveSystem(t *testing.T) {
	for _, tc := range []struct {
		name     string
		firmware qemu.Firmware
		nic      qemu.NIC
		reaches  string // as in TestLocalDisk
	}{
		{"BIOS", qemu.BIOS, qemu.NIC{}, liveDiskBoots},
		{"UEFI", qemu.UEFI, qemu.NIC{}, "UEFI Misc Device"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			needs(t, "all")
			bootLive(t, qemu.Config{Firmware: tc.firmware, NICs: []qemu.NIC{tc.nic}}, tc.reaches)
		})
	}
}

// bootLive boots one server until its console shows that the disk had its turn.
func bootLive(t *testing.T, config qemu.Config, reaches string) {
	t.Helper()
	kernel, err := os.ReadFile(agentFile(t, "vmlinuz"))
	if err != nil {
		t.Fatal(err)
	}
	m := &liveManager{token: "token-of-this-boot", kernel: kernel, initrd: liveInitramfs(t), data: bootSector(liveDiskBoots),
		reports: make(chan agentapi.Report, 100)}
	var files pxe.Files
	add := func(name string) pxe.File {
		f, err := files.Add(agentFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	cert, pin := newManagerKey(t)
	host := newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel: add("vmlinuz"), Initrds: []pxe.File{add("initramfs.cpio.zst")},
		Server: "192.0.2.1:8843", Pin: pin, Token: agentapi.Sensitive(m.token),
		Arguments: []string{"quiet", "console=ttyS0,115200"},
	}})
	seg := startSegment(t, host, &files, nil, func(c *bootserver.Config) { c.Directory = liveDirectory{host, m} })
	serveManager(t, seg, cert, m)
	l, err := seg.stack.ListenTCP(livePort)
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{Handler: m.files(), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = served.Serve(l) }()
	t.Cleanup(func() { _ = served.Close(); <-done })
	disk := filepath.Join(t.TempDir(), "disk.raw")
	makeDisk(t, disk, 64<<20)
	config.Disks = []qemu.Disk{{Path: disk, Serial: "DISK-1"}}
	vm := newVM(t, seg, host.MAC, config)
	ctx, cancel := context.WithTimeout(context.Background(), bootDeadline)
	defer cancel()
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	began := time.Now()
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	text, err := waitSerial(ctx, vm, reaches)
	seg.record.log(t)
	if err != nil {
		t.Fatalf("%v; reports: %d; the console ends in:\n%s", err, len(m.reports), tail(text, 4000))
	}
	t.Logf("%6.1f s  the disk boots", time.Since(began).Seconds())
	for line := range strings.Lines(text) {
		if strings.Contains(line, "ingot [") {
			t.Log(strings.TrimSpace(line))
		}
	}
	if !strings.Contains(text, "LIVE-SYSTEM is on the disk") || !strings.Contains(text, "end: "+string(agentapi.StartLive)) || len(m.reports) != 0 {
		t.Errorf("the live system was not started by the agent; reports: %d; the console ends in:\n%s", len(m.reports), tail(text, 4000))
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

// TestInstallInQEMU boots the agent's kernel and initramfs, installs the test image onto a
// virtual disk, and boots that disk until cloud-init has executed the user data. It requires
// INGOT_QEMU, and make agent-image test-image before.
func TestInstallInQEMU(t *testing.T) {
	if os.Getenv("INGOT_QEMU") == "" {
		t.Skip("INGOT_QEMU is not set")
	}
	for _, tc := range []struct {
		name, nic, serial string
		uefi              bool
		disk              func(file string) []string
	}{
		{"BIOS and virtio", "virtio-net-pci", "VD1", false, func(file string) []string {
			return []string{"-drive", "if=none,id=d0,format=raw,file=" + file, "-device", "virtio-blk-pci,drive=d0,serial=VD1"}
		}},
		{"UEFI with e1000e and NVMe", "e1000e", "NV1", true, func(file string) []string {
			return []string{"-drive", "if=none,id=d0,format=raw,file=" + file, "-device", "nvme,drive=d0,serial=NV1"}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			images := imagesDir(t)
			dir := t.TempDir()
			disk := filepath.Join(dir, "disk.raw")
			makeDisk(t, disk, 3<<30)
			m := agenttest.NewManager()
			m.Action = agentapi.BootDisk
			m.Interval = time.Second
			start := time.Now()
			m.OnProgress = func(p agentapi.Progress) {
				t.Logf("%5.1f s  %s %d%% %d MiB", time.Since(start).Seconds(), p.Step, p.Percent, p.Bytes>>20)
			}
			m.Bootstrap = agentapi.Bootstrap{
				UserData: "#cloud-config\nruncmd:\n- [sh, -c, 'echo USER-DATA-DONE $(hostname) > /dev/ttyS0']\n",
				MetaData: "instance-id: i1-1\nlocal-hostname: h1\n",
			}
			m.Order = agentapi.Order{
				Kind: agentapi.Install, ID: "o1", InstanceID: "i1", Attempt: 1,
				Install: &agentapi.InstallOrder{
					ImageURL: serveFile(t, filepath.Join(images, "test/current/disk.raw.zst")),
					Checksum: checksumFile(t, filepath.Join(images, "test/current/disk.raw.zst.sha256")),
					RootDisk: agentapi.DiskRef{Serial: tc.serial},
				},
			}
			addr := m.Start(t)
			args := append(machineArgs(t, dir, tc.nic, tc.uefi), tc.disk(disk)...)
			serial := filepath.Join(dir, "agent.log")
			qemu(t, serial, 180*time.Second, append(args,
				"-kernel", filepath.Join(images, "agent/current/vmlinuz"),
				"-initrd", filepath.Join(images, "agent/current/initramfs.cpio.zst"),
				"-append", fmt.Sprintf("console=ttyS0 panic=10 %s=%s %s=%s %s=%s %s=52:54:00:00:00:01",
					agentapi.ArgServer, guestAddress(addr), agentapi.ArgPin, m.Pin(),
					agentapi.ArgToken, m.Token.Reveal(), agentapi.ArgMAC)), "")
			t.Logf("agent: %.1f s from power-on to reboot", time.Since(start).Seconds())
			checkInstalled(t, m, disk, serial)
			start = time.Now()
			qemu(t, filepath.Join(dir, "system.log"), 240*time.Second, args, "USER-DATA-DONE h1")
			t.Logf("installed system: %.1f s from power-on to user data", time.Since(start).Seconds())
		})
	}
}

func checkInstalled(t *testing.T, m *agenttest.Manager, disk, serial string) {
	t.Helper()
	log, err := os.ReadFile(serial)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		if strings.Contains(line, "ingot [") {
			t.Log(strings.TrimSpace(line))
		}
	}
	for _, secret := range []string{"USER-DATA-DONE", m.Token.Reveal()} {
		// The kernel prints its command line with the token: that line is excluded.
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, secret) && !strings.Contains(strings.ToLower(line), "command line") {
				t.Errorf("the console shows a secret: %q", line)
			}
		}
	}
	reports := m.Reports()
	if len(reports) != 1 || reports[0].Outcome != agentapi.Succeeded {
		t.Fatalf("reports: %+v\n%s", reports, lastOf(string(log)))
	}
	t.Logf("hardware: %+v", m.Sessions()[0].Hardware)
	f, err := os.Open(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := marker.Read(f)
	if want := (agentapi.Marker{InstanceID: "i1", Attempt: 1, Complete: true}); err != nil || got == nil || *got != want {
		t.Fatalf("marker %+v, %v; want %+v", got, err, want)
	}
}

func imagesDir(t *testing.T) string {
	t.Helper()
	cache := os.Getenv("INGOT_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(base, "ingot")
	}
	dir := filepath.Join(cache, "images")
	for _, name := range []string{"agent/current/vmlinuz", "test/current/disk.raw.zst"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Fatalf("%v: run make agent-image test-image", err)
		}
	}
	return dir
}

func makeDisk(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
}

// guestAddress returns the address of the host's loopback in QEMU's user network.
func guestAddress(addr string) string { return strings.Replace(addr, "127.0.0.1", "10.0.2.2", 1) }

func serveFile(t *testing.T, path string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + guestAddress(l.Addr().String()) + "/images/x"
}

func checksumFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return "sha256:" + strings.Fields(string(b))[0]
}

func machineArgs(t *testing.T, dir, nic string, uefi bool) []string {
	t.Helper()
	args := []string{
		"-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max", "-machine", "q35", "-m", "1024", "-smp", "2",
		"-display", "none", "-vga", "none", "-monitor", "none", "-no-reboot",
		"-smbios", "type=1,manufacturer=Lab,product=Virtual,serial=SN1,uuid=4c4c4544-0000-2010-8020-80c04f202020",
		"-netdev", "user,id=n0", "-device", nic + ",netdev=n0,mac=52:54:00:00:00:01,romfile=",
	}
	if !uefi {
		return args
	}
	vars, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "vars.fd")
	if err := os.WriteFile(file, vars, 0o600); err != nil {
		t.Fatal(err)
	}
	return append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
		"-drive", "if=pflash,format=raw,unit=1,file="+file)
}

// qemu runs until the machine ends, or the serial console shows a text.
func qemu(t *testing.T, serial string, limit time.Duration, args []string, until string) {
	t.Helper()
	cmd := exec.Command("qemu-system-x86_64", append(args, "-serial", "file:"+serial)...)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	deadline := time.After(limit)
	for {
		select {
		case err := <-ended:
			if err != nil || until != "" {
				t.Fatalf("qemu ended: %v %s", err, output.String())
			}
			return
		case <-deadline:
			_ = cmd.Process.Kill()
			<-ended
			log, _ := os.ReadFile(serial)
			t.Fatalf("nothing within %s:\n%s", limit, lastOf(string(log)))
		case <-time.After(200 * time.Millisecond):
			if log, _ := os.ReadFile(serial); until != "" && strings.Contains(string(log), until) {
				_ = cmd.Process.Kill()
				<-ended
				return
			}
		}
	}
}

func lastOf(s string) string { return s[max(0, len(s)-4000):] }

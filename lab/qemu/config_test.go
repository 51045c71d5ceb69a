// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var testMAC = net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56}

func touch(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArguments(t *testing.T) {
	dir := t.TempDir()
	disk := touch(t, filepath.Join(dir, "a,b.raw"))
	cfg, err := Config{
		Name: "server-1", Dir: dir, Firmware: UEFI, MemoryMiB: 2048, CPUs: 2, Accel: KVM,
		UUID: "4c4c4544-0000-2010-8020-80c04f202020", SerialNumber: "SN,1",
		Disks:  []Disk{{Path: disk, Model: NVMe}, {Path: disk, Serial: "S2"}},
		NICs:   []NIC{{MAC: testMAC, Socket: "/n0", NoROM: true}, {MAC: testMAC, Socket: "/n1", Model: E1000E, ROM: "/r.rom"}},
		Direct: &Linux{Kernel: "/vmlinuz", Initrd: "/initrd", CommandLine: "quiet"},
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.Join(cfg.arguments(Network), " "), dir, "DIR")
	want := "-name server-1 -nodefaults -no-user-config -S -no-reboot -machine q35,graphics=off -display none -vga none" +
		" -accel kvm -cpu host -m 2048 -smp 2 -rtc base=utc -qmp unix:DIR/qmp.sock,server=on,wait=off" +
		" -chardev file,id=serial0,append=on,path=DIR/serial.log -serial chardev:serial0 -device virtio-rng-pci" +
		" -uuid 4c4c4544-0000-2010-8020-80c04f202020" +
		" -smbios type=1,manufacturer=Ingot Lab,product=Virtual Server,serial=SN,,1,uuid=4c4c4544-0000-2010-8020-80c04f202020" +
		" -fw_cfg name=opt/org.tianocore/IPv6Support,string=n -fw_cfg name=opt/org.tianocore/IPv6PXESupport,string=n" +
		" -drive if=pflash,format=raw,unit=0,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd" +
		" -drive if=pflash,format=raw,unit=1,file=DIR/nvram.fd" +
		" -kernel /vmlinuz -initrd /initrd -append quiet" +
		" -drive if=none,id=drive0,format=raw,discard=unmap,cache=unsafe,file=DIR/a,,b.raw" +
		" -device nvme,id=disk0,drive=drive0,serial=server-1-d0,bootindex=5" +
		" -drive if=none,id=drive1,format=raw,discard=unmap,cache=unsafe,file=DIR/a,,b.raw" +
		" -device virtio-blk-pci,id=disk1,drive=drive1,serial=S2,bootindex=6" +
		" -netdev stream,id=net0,server=off,addr.type=unix,addr.path=/n0" +
		" -device virtio-net-pci,id=nic0,netdev=net0,mac=52:54:00:12:34:56,bootindex=1,romfile=" +
		" -netdev stream,id=net1,server=off,addr.type=unix,addr.path=/n1" +
		" -device e1000e,id=nic1,netdev=net1,mac=52:54:00:12:34:56,bootindex=2,romfile=/r.rom"
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(got)); diff != "" {
		t.Error(diff)
	}
	if d := strings.Join(cfg.arguments(Disks), " "); !strings.Contains(d, "serial=server-1-d0,bootindex=1") || !strings.Contains(d, "bootindex=5") {
		t.Errorf("disk first: %s", d)
	}
	cfg.CD, cfg.SecureBoot = "/a,b.iso", true
	for boot, index := range map[Device]string{CD: "1", Network: "9", Disks: "9"} {
		got := strings.Join(cfg.arguments(boot), " ") + " "
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`bootindex=(\d+)`).FindAllStringSubmatch(got, -1) {
			if seen[m[1]] {
				t.Errorf("%s first: two devices have boot index %s, which QEMU refuses: %s", boot, m[1], got)
			}
			seen[m[1]] = true
		}
		for _, want := range []string{" -machine q35,graphics=off,smm=on ", "file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd ",
			" -global driver=cfi.pflash01,property=secure,value=on ",
			" -drive if=none,id=cd0,format=raw,readonly=on,media=cdrom,file=/a,,b.iso -device qemu-xhci -device usb-storage,drive=cd0,removable=on,bootindex=" + index + " "} {
			if !strings.Contains(got, want) {
				t.Errorf("%s first: no %q in %s", boot, want, got)
			}
		}
	}
	cfg.CD, cfg.SecureBoot = "", false
	cfg.Disks[0].Model, cfg.Disks[1].Model = SATA, SolidState
	for _, want := range []string{" -device ide-hd,bus=ide.0,id=disk0,drive=drive0,", " -device ide-hd,rotation_rate=1,bus=ide.1,id=disk1,drive=drive1,"} {
		if sata := strings.Join(cfg.arguments(Network), " "); !strings.Contains(sata, want) {
			t.Errorf("no %q in %s", want, sata)
		}
	}
	cfg.NoPXE = true
	if h := strings.Join(cfg.arguments(Network), " "); !strings.Contains(h, " -fw_cfg name=opt/org.tianocore/IPv4PXESupport,string=n") {
		t.Errorf("HTTP boot only: %s", h)
	}
	cfg.NoPXE, cfg.OnlyIPv6 = false, true
	h := strings.Join(cfg.arguments(Network), " ")
	if !strings.Contains(h, " -fw_cfg name=opt/org.tianocore/IPv4PXESupport,string=n") || strings.Contains(h, "IPv6") {
		t.Errorf("IPv6 only: %s", h)
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, contains string
		cfg            Config
	}{
		{"no name", "needs a name", Config{Dir: dir}},
		{"no directory", "needs a name", Config{Name: "a"}},
		{"directory too deep", "socket path", Config{Name: "a", Dir: dir + strings.Repeat("/x", 60)}},
		{"missing disk", "disk 0", Config{Name: "a", Dir: dir, Disks: []Disk{{Path: filepath.Join(dir, "none")}}}},
		{"no MAC", "network card 0", Config{Name: "a", Dir: dir, NICs: []NIC{{Socket: "/x"}}}},
		{"no socket", "network card 0", Config{Name: "a", Dir: dir, NICs: []NIC{{MAC: testMAC}}}},
		{"no UEFI firmware", "package ovmf", Config{Name: "a", Dir: dir, Firmware: UEFI, FirmwareDir: dir}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := New(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.contains) {
				t.Errorf("got %v, want %q", err, tc.contains)
			}
		})
	}
}

// TestNVRAMIsKept: UEFI variables are the server's own and survive.
func TestNVRAMIsKept(t *testing.T) {
	dir, firmware := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(firmware, ovmfVars), []byte("fresh"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Name: "a", Dir: dir, Firmware: UEFI, FirmwareDir: firmware}
	for _, want := range []string{"fresh", "changed by the guest"} {
		if _, err := New(cfg); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "nvram.fd"))
		if err != nil || string(got) != want {
			t.Errorf("variables %q, %v, want %q", got, err, want)
		}
		if err := os.WriteFile(filepath.Join(dir, "nvram.fd"), []byte("changed by the guest"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

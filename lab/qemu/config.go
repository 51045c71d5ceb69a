// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Firmware is what the server starts with.
type Firmware int

const (
	// BIOS is SeaBIOS.
	BIOS Firmware = iota
	// UEFI is OVMF without Secure Boot, with variables of the server's own.
	UEFI
)

// DiskModel is how a disk is attached.
type DiskModel string

// The disk models.
const (
	VirtioBlk DiskModel = "virtio-blk-pci"
	NVMe      DiskModel = "nvme"
	// SATA is a hard disk, SolidState one that is no disk and takes TRIM, both on the
	// machine's own AHCI controller, which has six ports.
	SATA       DiskModel = "ide-hd"
	SolidState DiskModel = "ide-hd,rotation_rate=1"
)

// NICModel is a network card.
type NICModel string

// The network cards. OVMF drives VirtioNet by itself; any card's own ROM is
// iPXE.
const (
	VirtioNet NICModel = "virtio-net-pci"
	E1000E    NICModel = "e1000e"
)

// Disk is one disk of raw format.
type Disk struct {
	// Path of the file; its size is the disk's.
	Path string
	// Model; empty means VirtioBlk.
	Model DiskModel
	// Serial number; empty means one made of the server's name and the index.
	Serial string
}

// NIC is one network card.
type NIC struct {
	MAC net.HardwareAddr
	// Model; empty means VirtioNet.
	Model NICModel
	// Socket is the path of the unix socket to which the card's frames go,
	// each after its length in 4 bytes, big-endian.
	Socket string
	// NoROM leaves the card's option ROM (iPXE) out, so that UEFI boots by its
	// own driver, and BIOS not at all.
	NoROM bool
	// ROM is the path of another option ROM; empty means QEMU's own, iPXE.
	ROM string
}

// Linux is a kernel with what it is started with; the files are on this machine.
type Linux struct{ Kernel, Initrd, CommandLine string }

// Config describes a server.
type Config struct {
	// Name is for people, and the default of serial numbers.
	Name string
	// Dir keeps its sockets, its serial console's log and its UEFI variables. It
	// must exist, be the server's own, and have a path of less than 90 bytes,
	// because unix sockets do.
	Dir      string
	Firmware Firmware
	// NoPXE leaves UEFI only HTTP boot to boot from the network by.
	NoPXE bool
	// IsIPv6Only has UEFI boot from the network by IPv6; otherwise it does not try that.
	OnlyIPv6 bool
	// MemoryMiB; 0 means 1024.
	MemoryMiB int
	// CPUs; 0 means 1.
	CPUs int
	// UUID, SerialNumber, Manufacturer and Product are the SMBIOS identity.
	// Empty UUID: QEMU's; empty others: made up from Name.
	UUID, SerialNumber, Manufacturer, Product string
	Disks                                     []Disk
	NICs                                      []NIC
	// CD is the path of an image in a virtual CD drive on USB, as BMCs have it; empty:
	// the server has no such drive.
	CD string
	// SecureBoot takes the build of OVMF that starts only what its variables trust; they
	// say whether it is on.
	SecureBoot bool
	// Variables is a file with the UEFI variables that the server begins with; empty
	// means OVMF's without any keys.
	Variables string
	// Direct is a kernel that the firmware is handed by QEMU; nil: it looks for one itself.
	Direct *Linux
	// Accel is how instructions are run; ask a Probe.
	Accel Accel
	// FirmwareDir holds OVMF; empty means Debian's /usr/share/OVMF.
	FirmwareDir string
	// Binary; empty means qemu-system-x86_64 from PATH.
	Binary string
}

const (
	ovmfCode = "OVMF_CODE_4M.fd"
	ovmfVars = "OVMF_VARS_4M.fd"
	// ovmfSecure keeps its variables from everything but the firmware itself, for which
	// it needs system management mode.
	ovmfSecure = "OVMF_CODE_4M.secboot.fd"
	// maxSocketPath is the room in sockaddr_un, less its terminator.
	maxSocketPath = 107
)

func (c Config) serialLog() string { return filepath.Join(c.Dir, "serial.log") }
func (c Config) qmpSocket() string { return filepath.Join(c.Dir, "qmp.sock") }
func (c Config) nvram() string     { return filepath.Join(c.Dir, "nvram.fd") }

// withDefaults fills in what is empty and checks the rest.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" || c.Dir == "" {
		return c, errors.New("virtual server needs a name and a directory")
	}
	if n := len(c.qmpSocket()); n > maxSocketPath {
		return c, fmt.Errorf("socket path of server %s is %d bytes long, at most %d fit", c.Name, n, maxSocketPath)
	}
	c.MemoryMiB = orDefault(c.MemoryMiB, 1024)
	c.CPUs = orDefault(c.CPUs, 1)
	c.SerialNumber = orDefault(c.SerialNumber, "LAB-"+c.Name)
	c.Manufacturer = orDefault(c.Manufacturer, "Ingot Lab")
	c.Product = orDefault(c.Product, "Virtual Server")
	c.FirmwareDir = orDefault(c.FirmwareDir, "/usr/share/OVMF")
	c.Variables = orDefault(c.Variables, filepath.Join(c.FirmwareDir, ovmfVars))
	c.Binary = orDefault(c.Binary, "qemu-system-x86_64")
	if c.Accel == (Accel{}) {
		c.Accel = TCG
	}
	c.Disks = append([]Disk(nil), c.Disks...)
	for i := range c.Disks {
		d := &c.Disks[i]
		d.Model = orDefault(d.Model, VirtioBlk)
		// virtio-blk serial numbers hold 20 bytes.
		d.Serial = orDefault(d.Serial, fmt.Sprintf("%.16s-d%d", c.Name, i))
		if _, err := os.Stat(d.Path); err != nil {
			return c, fmt.Errorf("disk %d of server %s: %w", i, c.Name, err)
		}
	}
	c.NICs = append([]NIC(nil), c.NICs...)
	for i := range c.NICs {
		n := &c.NICs[i]
		n.Model = orDefault(n.Model, VirtioNet)
		if len(n.MAC) != 6 || n.Socket == "" {
			return c, fmt.Errorf("network card %d of server %s needs a MAC address and a socket", i, c.Name)
		}
	}
	return c, nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// arguments is QEMU's command line. The machine starts stopped, so that no
// event is missed, and ends at a reset, which starts the next process.
func (c Config) arguments(boot Device) []string {
	machine, code := "q35,graphics=off", ovmfCode
	if c.SecureBoot {
		machine, code = machine+",smm=on", ovmfSecure
	}
	args := []string{
		"-name", quote(c.Name), "-nodefaults", "-no-user-config", "-S", "-no-reboot",
		// graphics=off has SeaBIOS and its ROMs speak on the serial port.
		"-machine", machine, "-display", "none", "-vga", "none",
		"-accel", c.Accel.Accelerator, "-cpu", c.Accel.CPU,
		"-m", strconv.Itoa(c.MemoryMiB), "-smp", strconv.Itoa(c.CPUs), "-rtc", "base=utc",
		"-qmp", "unix:" + quote(c.qmpSocket()) + ",server=on,wait=off",
		"-chardev", "file,id=serial0,append=on,path=" + quote(c.serialLog()), "-serial", "chardev:serial0",
		"-device", "virtio-rng-pci",
	}
	smbios := fmt.Sprintf("type=1,manufacturer=%s,product=%s,serial=%s",
		quote(c.Manufacturer), quote(c.Product), quote(c.SerialNumber))
	if c.UUID != "" {
		args = append(args, "-uuid", c.UUID)
		smbios += ",uuid=" + quote(c.UUID)
	}
	args = append(args, "-smbios", smbios)
	args = append(args, c.firmware(code)...)
	args = append(args, c.cd(boot)...)
	if l := c.Direct; l != nil {
		args = append(args, "-kernel", l.Kernel, "-initrd", l.Initrd, "-append", l.CommandLine)
	}
	if c.NoPXE || c.OnlyIPv6 {
		args = append(args, "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n")
	}
	return slices.Concat(args, c.disks(boot), c.nics(boot))
}

// firmware has the machine start with UEFI, of which code is the program. BIOS is QEMU's
// own choice.
func (c Config) firmware(code string) (args []string) {
	if c.Firmware == UEFI && !c.OnlyIPv6 {
		args = append(args,
			// Most of the lab speaks IPv4 only; OVMF would wait a minute for each
			// attempt by IPv6 before it goes on to the next device.
			"-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=n",
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n")
	}
	if c.Firmware == UEFI {
		args = append(args,
			"-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+quote(filepath.Join(c.FirmwareDir, code)),
			"-drive", "if=pflash,format=raw,unit=1,file="+quote(c.nvram()))
	}
	if c.SecureBoot {
		args = append(args, "-global", "driver=cfi.pflash01,property=secure,value=on")
	}
	return args
}

func (c Config) cd(boot Device) []string {
	if c.CD == "" {
		return nil
	}
	return []string{"-drive", "if=none,id=cd0,format=raw,readonly=on,media=cdrom,file=" + quote(c.CD),
		"-device", "qemu-xhci", "-device", fmt.Sprintf("usb-storage,drive=cd0,removable=on,bootindex=%d", c.bootIndex(boot, CD, 0))}
}

func (c Config) disks(boot Device) (args []string) {
	ports := 0
	for i, d := range c.Disks {
		model := string(d.Model)
		if d.Model == SATA || d.Model == SolidState { // QEMU looks for no other port than the first
			model = fmt.Sprintf("%s,bus=ide.%d", model, ports)
			ports++
		}
		args = append(args,
			"-drive", fmt.Sprintf("if=none,id=drive%d,format=raw,discard=unmap,cache=unsafe,file=%s", i, quote(d.Path)),
			"-device", fmt.Sprintf("%s,id=%s,drive=drive%d,serial=%s,bootindex=%d",
				model, diskID(i), i, quote(d.Serial), c.bootIndex(boot, Disks, i)))
	}
	return args
}

func (c Config) nics(boot Device) (args []string) {
	for i, n := range c.NICs {
		device := fmt.Sprintf("%s,id=%s,netdev=net%d,mac=%s,bootindex=%d",
			n.Model, nicID(i), i, n.MAC, c.bootIndex(boot, Network, i))
		if n.NoROM || n.ROM != "" {
			device += ",romfile=" + quote(n.ROM)
		}
		args = append(args,
			"-netdev", fmt.Sprintf("stream,id=net%d,server=off,addr.type=unix,addr.path=%s", i, quote(n.Socket)),
			"-device", device)
	}
	return args
}

func diskID(i int) string { return "disk" + strconv.Itoa(i) }
func nicID(i int) string  { return "nic" + strconv.Itoa(i) }

// bootIndex numbers all devices: those of the first kind first, each kind in
// the order of its cards or disks.
func (c Config) bootIndex(first, kind Device, i int) int {
	if kind == first {
		return i + 1
	}
	if kind == CD { // nobody starts from it unless asked to
		return i + 1 + 2*(len(c.Disks)+len(c.NICs))
	}
	index := i + 1 + len(c.Disks) + len(c.NICs)
	if first == CD && kind == Network { // after the disks: no number is there twice
		index += len(c.Disks)
	}
	return index
}

// quote doubles commas, which end a value in QEMU's option syntax.
func quote(value string) string { return strings.ReplaceAll(value, ",", ",,") }

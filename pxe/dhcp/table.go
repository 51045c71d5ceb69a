// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"

	"github.com/ingot-metal/ingot/pxe"
)

// BootFromDisk is the name of a file that never exists. UEFI firmware that tries to load it gets
// an error from TFTP or HTTP and tries its next boot device. People read the name on the console.
const BootFromDisk = "boot-from-disk"

// bootAction is what a client gets.
type bootAction int

const (
	// noReply: no answer.
	noReply bootAction = iota
	// noFile: an answer without a boot file.
	noFile
	// loadTFTP, loadHTTP: the boot loader for the firmware.
	loadTFTP
	loadHTTP
	// runScript: the URL of the boot script.
	runScript
	// fromDiskTFTP, fromDiskHTTP: BootFromDisk.
	fromDiskTFTP
	fromDiskHTTP
)

// plans are the actions for plans LocalDisk and Agent. Plan None always gets noReply.
type plans struct{ disk, agent bootAction }

type row struct{ reserve, proxy plans }

// bootTable returns the table firmware × mode × plan → action. A missing loader also results
// in noReply.
//
// BIOS from disk: an address without a file makes the ROM try the next boot device at once
// (PXE-E53), while silence would make it wait for its retries. In mode Proxy the other
// server's offer already has that effect. UEFI ignores an offer without a file and retries
// four times, for a minute. A file that cannot be loaded makes it continue at once.
//
// Unsupported firmware that is to boot the agent gets no answer: another server may have a
// loader for it, and an address without a file would use up the one-time boot override. U-Boot
// does not support proxyDHCP.
func bootTable() [firmwares]row {
	uefi := plans{fromDiskTFTP, loadTFTP}
	http := plans{fromDiskHTTP, loadHTTP}
	script := plans{runScript, runScript}
	return [firmwares]row{
		plain:       {reserve: plans{noFile, noFile}},
		agent:       {reserve: plans{noFile, noFile}, proxy: plans{noReply, noFile}},
		biosROM:     {reserve: plans{noFile, loadTFTP}, proxy: plans{noReply, loadTFTP}},
		uefiX64:     {reserve: uefi, proxy: uefi},
		uefiARM64:   {reserve: uefi, proxy: uefi},
		httpX64:     {reserve: http, proxy: http},
		httpARM64:   {reserve: http, proxy: http},
		ipxe:        {reserve: script, proxy: script},
		uBoot:       {reserve: plans{noFile, loadTFTP}},
		unsupported: {reserve: plans{noFile, noReply}},
	}
}

type boot struct {
	// file is option 67 and the BOOTP file field; empty means none.
	file string
	// answer is false if the server should stay silent, for the reason why.
	answer bool
	why    string
}

func (id Identity) bootFor(fw firmware, host pxe.Host) boot {
	r := bootTable()[fw]
	p := r.reserve
	if host.Mode == pxe.Proxy {
		p = r.proxy
	}
	var t bootAction
	switch host.Plan.Kind {
	case pxe.LocalDisk:
		t = p.disk
	case pxe.Agent:
		t = p.agent
		if fw != agent && !mayBootAgent(fw, host.Plan.Agent) {
			t = p.disk // the firmware continues with the BMC's boot target or the disk
		}
	}
	return id.resolve(t, fw, host)
}

// mayBootAgent reports whether firmware may get the agent: by any way if the BMC sets none, else
// only by the BMC's way.
func mayBootAgent(fw firmware, boot pxe.AgentBoot) bool {
	switch boot.Method {
	case pxe.BootNetwork:
		return true
	case pxe.BootHTTP:
		return fw == httpX64 && boot.Unified != (pxe.File{})
	}
	return false
}

// resolve converts an action to a file name.
func (id Identity) resolve(t bootAction, fw firmware, host pxe.Host) boot {
	switch t {
	case noFile:
		return boot{answer: true}
	case runScript:
		return boot{answer: true, file: id.BaseURL + "/boot/" + host.MAC.String() + "/script.ipxe"}
	case fromDiskTFTP:
		return boot{answer: true, file: BootFromDisk}
	case fromDiskHTTP:
		return boot{answer: true, file: id.BaseURL + "/" + BootFromDisk}
	case loadTFTP, loadHTTP:
		if host.Plan.Agent.Method == pxe.BootHTTP {
			return boot{answer: true, file: id.BaseURL + pxe.UnifiedPath(host.MAC)}
		}
		name := id.Loaders.loader(fw, host.Loader)
		if name == "" {
			return boot{why: fmt.Sprintf("no %s boot loader for %s", host.Loader, fw)}
		}
		if t == loadHTTP {
			name = id.BaseURL + "/" + name
		}
		return boot{answer: true, file: name}
	}
	return boot{why: fmt.Sprintf("no answer for %s in mode %s with plan %s", fw, host.Mode, host.Plan.Kind)}
}

// Set has the file names of one boot loader build; empty means that the file does not exist.
type Set struct {
	// BIOS is for PXE ROMs, UEFI for x64 UEFI, ARM64 for 64-bit Arm UEFI and U-Boot.
	BIOS, UEFI, ARM64 string
}

// Loaders has the names of the boot loaders. TFTP serves them, and HTTP at its root.
type Loaders struct {
	// Small use the firmware's network driver. BIOS and UEFI are required.
	Small Set
	// Full have their own drivers. A missing one is replaced by the small one.
	Full Set
	// Signed is shim for x64 UEFI by TFTP, which loads grubx64.efi from the same directory.
	// Hosts with the signed loader get none if it is empty.
	Signed string
}

// DefaultLoaders returns the names in Debian's package ipxe, and for Arm, which the package
// lacks, the names of Ingot's own iPXE builds.
func DefaultLoaders() Loaders {
	return Loaders{
		Small: Set{BIOS: "undionly.kpxe", UEFI: "snponly.efi", ARM64: "snponly-arm64.efi"},
		Full:  Set{BIOS: "ipxe.pxe", UEFI: "ipxe.efi", ARM64: "ipxe-arm64.efi"},

		Signed: "shimx64.efi",
	}
}

// Names returns the names of all loaders that exist.
func (l Loaders) Names() []string {
	var names []string
	for _, name := range l.fields() {
		if *name != "" {
			names = append(names, *name)
		}
	}
	return names
}

// Keep returns the loaders for which have returns true.
func (l Loaders) Keep(have func(name string) bool) Loaders {
	for _, name := range l.fields() {
		if *name != "" && !have(*name) {
			*name = ""
		}
	}
	return l
}

func (l *Loaders) fields() []*string {
	return []*string{&l.Small.BIOS, &l.Small.UEFI, &l.Small.ARM64, &l.Full.BIOS, &l.Full.UEFI, &l.Full.ARM64, &l.Signed}
}

func (l Loaders) loader(fw firmware, build pxe.Loader) string {
	if build == pxe.SignedLoader {
		if fw == uefiX64 {
			return l.Signed
		}
		return ""
	}
	pick := func(s Set) string {
		switch fw {
		case biosROM:
			return s.BIOS
		case uefiX64, httpX64:
			return s.UEFI
		case uefiARM64, httpARM64, uBoot:
			return s.ARM64
		}
		return ""
	}
	if full := pick(l.Full); build == pxe.FullLoader && full != "" {
		return full
	}
	return pick(l.Small)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"fmt"

	"github.com/ingot-metal/ingot/pxe"
)

// BootFromDisk is the name of a file that is never there. UEFI that is told to
// load it gets a refusal from TFTP or HTTP and goes on to its next boot device;
// people read the name on the console.
const BootFromDisk = "boot-from-disk"

// treatment is what a client is given.
type treatment int

const (
	// silence: no answer.
	silence treatment = iota
	// bare: an address, or what else was asked for, and no file.
	bare
	// loadTFTP, loadHTTP: the boot loader for the firmware.
	loadTFTP
	loadHTTP
	// runScript: the URL of the boot script.
	runScript
	// leaveTFTP, leaveHTTP: BootFromDisk.
	leaveTFTP
	leaveHTTP
)

// plans are the treatments under the two plans that are answered at all.
type plans struct{ disk, agent treatment }

// row is what one firmware is given in each mode.
type row struct{ reserve, proxy plans }

// answers is the table firmware × mode × plan → answer. Nobody is answered when
// the plan is None, and nobody is given a loader that this server does not have.
//
// BIOS, from its disk: an address without a file makes the ROM go on to the next
// boot device at once (PXE-E53), while silence would have it wait its retries
// out. In mode Proxy it has such an offer from the other server already. UEFI
// does not take an offer without a file, and asks four times, for a minute; a
// file that is refused makes it go on at once.
//
// Unsupported firmware that is to boot the agent hears nothing: there may be a
// server for it elsewhere, and an address without a file would only spend the
// one-time boot override. U-Boot knows no proxyDHCP.
func answers() [firmwares]row {
	uefi := plans{leaveTFTP, loadTFTP}
	http := plans{leaveHTTP, loadHTTP}
	script := plans{runScript, runScript}
	return [firmwares]row{
		plain:       {reserve: plans{bare, bare}},
		agent:       {reserve: plans{bare, bare}, proxy: plans{silence, bare}},
		biosROM:     {reserve: plans{bare, loadTFTP}, proxy: plans{silence, loadTFTP}},
		uefiX64:     {reserve: uefi, proxy: uefi},
		uefiARM64:   {reserve: uefi, proxy: uefi},
		httpX64:     {reserve: http, proxy: http},
		httpARM64:   {reserve: http, proxy: http},
		ipxe:        {reserve: script, proxy: script},
		uBoot:       {reserve: plans{bare, loadTFTP}},
		unsupported: {reserve: plans{bare, silence}},
	}
}

// boot is what a reply says about booting.
type boot struct {
	// file is option 67 and the BOOTP file field; empty: none.
	file string
	// answer is false when silence is the best answer, and why says for what
	// reason.
	answer bool
	why    string
}

// bootFor reads the table for one host.
func (id Identity) bootFor(fw firmware, host pxe.Host) boot {
	r := answers()[fw]
	p := r.reserve
	if host.Mode == pxe.Proxy {
		p = r.proxy
	}
	var t treatment
	switch host.Plan.Kind {
	case pxe.LocalDisk:
		t = p.disk
	case pxe.Agent:
		t = p.agent
		if fw != agent && !offered(fw, host.Plan.Agent) {
			t = p.disk // its firmware goes on to what the BMC named, or to the disk
		}
	}
	return id.treat(t, fw, host)
}

// offered says whether a firmware may have the agent that is to be booted: by the way
// that the BMC names, or by any where it names none.
func offered(fw firmware, boot pxe.AgentBoot) bool {
	switch boot.Way {
	case pxe.ByNetwork:
		return true
	case pxe.ByHTTP:
		return fw == httpX64 && boot.Unified != (pxe.File{})
	}
	return false
}

// treat turns a treatment into a file's name.
func (id Identity) treat(t treatment, fw firmware, host pxe.Host) boot {
	switch t {
	case bare:
		return boot{answer: true}
	case runScript:
		return boot{answer: true, file: id.BaseURL + "/boot/" + host.MAC.String() + "/script.ipxe"}
	case leaveTFTP:
		return boot{answer: true, file: BootFromDisk}
	case leaveHTTP:
		return boot{answer: true, file: id.BaseURL + "/" + BootFromDisk}
	case loadTFTP, loadHTTP:
		if host.Plan.Agent.Way == pxe.ByHTTP {
			return boot{answer: true, file: id.BaseURL + pxe.UnifiedPath(host.MAC)}
		}
		name := id.Loaders.loader(fw, host.Loader)
		if name == "" {
			return boot{why: fmt.Sprintf("there is no boot loader (%s) for %s", host.Loader, fw)}
		}
		if t == loadHTTP {
			name = id.BaseURL + "/" + name
		}
		return boot{answer: true, file: name}
	}
	return boot{why: fmt.Sprintf("%s asked, mode is %s, plan is %s", fw, host.Mode, host.Plan.Kind)}
}

// Set names the builds of the boot loader of one size. An empty name: there is
// none.
type Set struct {
	// BIOS is loaded by PXE ROMs, UEFI by x64 UEFI, ARM64 by 64-bit Arm UEFI
	// and by U-Boot.
	BIOS, UEFI, ARM64 string
}

// Loaders names the boot loaders that TFTP serves, and HTTP under the same names
// at its root.
type Loaders struct {
	// Small drive the card through the firmware that loaded them. BIOS and UEFI
	// are needed.
	Small Set
	// Full have drivers of their own; where one is missing, the small one takes
	// its place.
	Full Set
	// Signed is shim for x64 UEFI by TFTP, which loads grubx64.efi from where it came.
	// Empty: hosts that are to be given it get none.
	Signed string
}

// DefaultLoaders are the names in Debian's package ipxe; those for Arm, which it
// lacks, are what iPXE's own builds are called here.
func DefaultLoaders() Loaders {
	return Loaders{
		Small: Set{BIOS: "undionly.kpxe", UEFI: "snponly.efi", ARM64: "snponly-arm64.efi"},
		Full:  Set{BIOS: "ipxe.pxe", UEFI: "ipxe.efi", ARM64: "ipxe-arm64.efi"},

		Signed: "shimx64.efi",
	}
}

// Names lists the loaders, each once.
func (l Loaders) Names() []string {
	var names []string
	for _, name := range []string{l.Small.BIOS, l.Small.UEFI, l.Small.ARM64, l.Full.BIOS, l.Full.UEFI, l.Full.ARM64, l.Signed} {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Keep returns the loaders that have says are there.
func (l Loaders) Keep(have func(name string) bool) Loaders {
	small, full := &l.Small, &l.Full
	for _, name := range []*string{&small.BIOS, &small.UEFI, &small.ARM64, &full.BIOS, &full.UEFI, &full.ARM64, &l.Signed} {
		if *name != "" && !have(*name) {
			*name = ""
		}
	}
	return l
}

// loader names the loader for a firmware; empty: there is none.
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

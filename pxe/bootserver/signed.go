// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/script"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

// Signed are boot loaders that Microsoft's keys vouch for: Debian's shim and its build of
// GRUB for the network. That one speaks TFTP alone, so hosts that are given them get
// their script, kernel and initramfs by TFTP as well.
type Signed struct {
	Shim, GRUB []byte
}

// nextOfShim is what shim loads, by the way and from the directory that it came.
const nextOfShim = "grubx64.efi"

// optionalFiles are what shim and GRUB ask for, and do without.
func optionalFiles() []string {
	return []string{"revocations_sku.efi", "revocations_sbat.efi", "shim_certificate_0.efi", "grub/x86_64-efi/command.lst", "grub/x86_64-efi/fs.lst",
		"grub/x86_64-efi/crypto.lst", "grub/x86_64-efi/terminal.lst", "grub/x86_64-efi/grub.cfg"}
}

// isThere says whether there are such loaders.
func (l Signed) isThere() bool { return len(l.Shim) > 0 && len(l.GRUB) > 0 }

// addTo puts the loaders, and what GRUB begins with, among the files of TFTP.
func (l Signed) addTo(files map[string][]byte, baseURL string) error {
	if !l.isThere() {
		return nil
	}
	start, err := script.StartGRUB(baseURL)
	if err != nil {
		return fmt.Errorf("make %s: %w", script.ConfigGRUB, err)
	}
	files[dhcp.DefaultLoaders().Signed], files[nextOfShim], files[script.ConfigGRUB] = l.Shim, l.GRUB, []byte(start)
	return nil
}

// filesByTFTP are the loaders, and what GRUB asks for where there is one.
func (s *Server) filesByTFTP(loaders *tftp.Dir) tftp.Files {
	if !s.cfg.Signed.isThere() {
		return loaders
	}
	return &grubFiles{Dir: loaders, directory: s.cfg.Directory, files: s.cfg.Files, bindings: s.cfg.Bindings, baseURL: s.baseURL}
}

// grubFiles serves hosts with signed loaders besides.
type grubFiles struct {
	*tftp.Dir
	directory pxe.Directory
	files     *pxe.Files
	bindings  *pxe.AddressBindings
	baseURL   string
}

// Open implements tftp.Files. Scripts hold the boot token: only the host may read its script.
func (g *grubFiles) Open(client netip.Addr, name string) (*tftp.File, error) {
	name = tftp.Clean(name)
	if mac, ok := script.ParseScriptGRUB(name); ok {
		host, known := g.directory.Lookup(mac)
		if !known || host.Loader != pxe.SignedLoader || host.Plan.Loaded() == pxe.Agent && !host.Speaks(client, g.bindings.At(client)) {
			return nil, fmt.Errorf("boot script for %s at %s: %w", mac, client, fs.ErrNotExist)
		}
		return g.script(host)
	}
	if part := strings.Split(name, "/"); len(part) == 3 && part[0] == "files" {
		return g.file(pxe.File{SHA256: part[1], Name: part[2]})
	}
	return g.Dir.Open(client, name)
}

func (g *grubFiles) script(host pxe.Host) (*tftp.File, error) {
	text, err := script.RenderGRUB(host, g.baseURL)
	if errors.Is(err, script.ErrNoScript) {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return nil, fmt.Errorf("boot script: %w", err)
	}
	opened := tftp.InMemory([]byte(text))
	opened.Stage, opened.Detail = pxe.StageScript, host.Plan.Loaded().String()
	return opened, nil
}

func (g *grubFiles) file(file pxe.File) (*tftp.File, error) {
	src, _, err := g.files.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	opened, err := tftp.OnDisk(src)
	if err != nil {
		return nil, fmt.Errorf("boot file %s: %w", file.Name, err)
	}
	opened.Stage, opened.Detail = pxe.StageFile, file.Name
	return opened, nil
}

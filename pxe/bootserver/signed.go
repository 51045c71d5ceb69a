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

// Signed are boot loaders signed with Microsoft's keys: Debian's shim and its network GRUB.
// This GRUB supports only TFTP, so its hosts fetch script, kernel and initramfs by TFTP.
type Signed struct {
	Shim, GRUB []byte
}

// nextOfShim is the file that shim loads from its own directory.
const nextOfShim = "grubx64.efi"

// optionalFiles are files that shim and GRUB request but do not need.
func optionalFiles() []string {
	return []string{"revocations_sku.efi", "revocations_sbat.efi", "shim_certificate_0.efi", "grub/x86_64-efi/command.lst", "grub/x86_64-efi/fs.lst",
		"grub/x86_64-efi/crypto.lst", "grub/x86_64-efi/terminal.lst", "grub/x86_64-efi/grub.cfg"}
}
func (l Signed) isSet() bool { return len(l.Shim) > 0 && len(l.GRUB) > 0 }

// addTo adds the loaders and GRUB's first script to the files of TFTP.
func (l Signed) addTo(files map[string][]byte, baseURL string) error {
	if !l.isSet() {
		return nil
	}
	start, err := script.StartGRUB(baseURL)
	if err != nil {
		return fmt.Errorf("make %s: %w", script.ConfigGRUB, err)
	}
	files[dhcp.DefaultLoaders().Signed], files[nextOfShim], files[script.ConfigGRUB] = l.Shim, l.GRUB, []byte(start)
	return nil
}

// filesByTFTP returns the loaders, and the files for GRUB if there are signed loaders.
func (s *Server) filesByTFTP(loaders *tftp.Dir) tftp.Files {
	if !s.cfg.Signed.isSet() {
		return loaders
	}
	return &grubFiles{Dir: loaders, directory: s.cfg.Directory, files: s.cfg.Files, bindings: s.cfg.Bindings, baseURL: s.baseURL}
}

// grubFiles also serves the scripts and files of hosts with signed loaders.
type grubFiles struct {
	*tftp.Dir
	directory pxe.Directory
	files     *pxe.Files
	bindings  *pxe.AddressBindings
	baseURL   string
}

// Open implements tftp.Files. A script holds the boot token, so only its host may read it.
func (g *grubFiles) Open(client netip.Addr, name string) (*tftp.File, error) {
	name = tftp.Clean(name)
	if mac, ok := script.ParseScriptGRUB(name); ok {
		host, known := g.directory.Lookup(mac)
		if !known || host.Loader != pxe.SignedLoader || host.Plan.NetworkBootKind() == pxe.Agent && !host.MayUseAddress(client, g.bindings.At(client)) {
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
	opened.Stage, opened.Detail = pxe.StageScript, host.Plan.NetworkBootKind().String()
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

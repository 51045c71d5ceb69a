// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/hack/debian"
)

// program is a UEFI program of a Debian package for the agent image.
type program struct {
	pkg string
	// from is its path in the package, to its name in the image.
	from, to string
}

// programs returns the stub of unified kernel images, and the programs that firmware starts with
// Secure Boot and Microsoft's keys: shim, signed by Microsoft, and GRUB's network build, signed by
// Debian like its kernel.
func programs() []program {
	return []program{
		{"systemd-boot-efi", "usr/lib/systemd/boot/efi/linuxx64.efi.stub", "linuxx64.efi.stub"},
		{"shim-signed", "usr/lib/shim/shimx64.efi.signed", "shimx64.efi"},
		{"grub-efi-amd64-signed", "usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed", "grubx64.efi"},
	}
}

// fetchPrograms downloads the packages, in the order of programs.
func fetchPrograms(ctx context.Context, c *debian.Cache) ([]string, error) {
	var debs []string
	for _, p := range programs() {
		deb, err := debian.Download(ctx, c, p.pkg)
		if err != nil {
			return nil, err
		}
		debs = append(debs, deb)
	}
	return debs, nil
}

func baseNames(paths []string) []string {
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// assemblePrograms copies the programs to dir, with the copyright and source files that their licenses
// require.
func assemblePrograms(ctx context.Context, debs []string, work, dir string) error {
	for i, p := range programs() {
		tree := filepath.Join(work, p.pkg)
		if _, err := debian.Run(ctx, "", "dpkg-deb", "-x", debs[i], tree); err != nil {
			return err
		}
		for to, from := range map[string]string{
			p.to:                 p.from,
			"copyright." + p.pkg: filepath.Join("usr", "share", "doc", p.pkg, "copyright"),
		} {
			if err := copyFile(filepath.Join(dir, to), filepath.Join(tree, from)); err != nil {
				return fmt.Errorf("package %s: %w", p.pkg, err)
			}
		}
		control, err := debian.Run(ctx, "", "dpkg-deb", "--field", debs[i])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "source."+p.pkg), []byte(sourceOf(control)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sourceOf returns the source package of a control paragraph. For a signed package, it is the package
// in Built-Using.
func sourceOf(control string) string {
	if built := debian.ControlField(control, "Built-Using"); built != "" {
		return "Debian source package " + built + "\n"
	}
	source := cmp.Or(debian.ControlField(control, "Source"), debian.ControlField(control, "Package"))
	return fmt.Sprintf("Debian source package %s %s\n", source, debian.ControlField(control, "Version"))
}

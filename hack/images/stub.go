// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/hack/debian"
)

// stubPackage has the UEFI program of which unified kernel images are made, and
// stubFile is what it and its result are called.
const (
	stubPackage = "systemd-boot-efi"
	stubFile    = "linuxx64.efi.stub"
)

// assembleStub puts the stub into dir, and what must go with it wherever it goes:
// its copyright and source, each with the package's name.
func assembleStub(ctx context.Context, deb, work, dir string) error {
	tree := filepath.Join(work, "stub")
	if _, err := debian.Run(ctx, "", "dpkg-deb", "-x", deb, tree); err != nil {
		return err
	}
	for to, from := range map[string]string{
		stubFile:                   filepath.Join("usr", "lib", "systemd", "boot", "efi", stubFile),
		"copyright." + stubPackage: filepath.Join("usr", "share", "doc", stubPackage, "copyright"),
	} {
		if err := copyFile(filepath.Join(dir, to), filepath.Join(tree, from)); err != nil {
			return fmt.Errorf("package %s: %w", stubPackage, err)
		}
	}
	control, err := debian.Run(ctx, "", "dpkg-deb", "--field", deb)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "source."+stubPackage), []byte(stubSource(control)), 0o644)
}

// stubSource names the source package by the control paragraph of the stub's.
func stubSource(control string) string {
	return fmt.Sprintf("Debian source package %s %s\n", debian.ControlField(control, "Source"), debian.ControlField(control, "Version"))
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// The signed boot loaders in --agent-image-dir: beside the kernel, which the same GRUB
// must find signed by the same maker.
const (
	agentShim = "shimx64.efi"
	agentGRUB = "grubx64.efi"
)

// loadSigned reads the signed boot loaders. A directory with neither is none's fault;
// one alone is of no use, and an error.
func loadSigned(dir string) (bootserver.Signed, error) {
	shim, err := os.ReadFile(filepath.Join(dir, agentShim))
	grub, errGRUB := os.ReadFile(filepath.Join(dir, agentGRUB))
	if errors.Is(err, fs.ErrNotExist) && errors.Is(errGRUB, fs.ErrNotExist) {
		return bootserver.Signed{}, nil
	}
	if err := errors.Join(err, errGRUB); err != nil {
		return bootserver.Signed{}, fmt.Errorf("--agent-image-dir: signed boot loaders: %w", err)
	}
	return bootserver.Signed{Shim: shim, GRUB: grub}, nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// The components that bmclib distinguishes.
const (
	componentBIOS = "BIOS"
	componentBMC  = "BMC"
)

// maxImage bounds an image, in bytes; the largest known are about 400 MiB.
const maxImage = 2 << 30

func isComponent(name string) bool { return name == componentBIOS || name == componentBMC }

// componentOf returns the component of an image: from its only target, from the component that the
// caller names, or from the file name, which vendors start with the component ("BIOS_X11SCM-…").
// Empty: unknown.
func componentOf(update bmc.Update) string {
	if len(update.Targets) == 1 {
		id := update.Targets[0]
		return componentIn(id[strings.LastIndex(id, "/")+1:])
	}
	if len(update.Targets) > 1 {
		return ""
	}
	if id := update.Component; id != "" {
		if known := componentIn(id[strings.LastIndex(id, "/")+1:]); known != "" {
			return known
		}
	}
	return componentIn(update.Filename)
}

func componentIn(name string) string {
	upper := strings.ToUpper(name)
	bios, manager := strings.Contains(upper, componentBIOS), strings.Contains(upper, componentBMC) || strings.Contains(upper, "IDRAC")
	switch {
	case bios && !manager:
		return componentBIOS
	case manager && !bios:
		return componentBMC
	}
	return ""
}

// spool writes an image to an unlinked file, since bmclib accepts only files and sends their names
// to the BMC. The file is positioned at its start.
func spool(ctx context.Context, update bmc.Update) (*os.File, error) {
	dir, err := os.MkdirTemp("", "firmware-")
	if err != nil {
		return nil, fmt.Errorf("store image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file, err := os.OpenFile(filepath.Join(dir, plainName(update.Filename)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("store image: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil { // now, so that a killed process leaves no file
		return nil, errors.Join(fmt.Errorf("store image: %w", err), file.Close())
	}
	if err := fill(ctx, file, update); err != nil {
		return nil, errors.Join(fmt.Errorf("store image: %w", err), file.Close())
	}
	return file, nil
}

func fill(ctx context.Context, file *os.File, update bmc.Update) error {
	limit := int64(maxImage)
	if update.Size > 0 {
		limit = min(limit, update.Size)
	}
	n, err := io.Copy(file, io.LimitReader(contextReader{ctx, update.Image}, limit+1))
	switch {
	case err != nil:
		return err
	case n > limit:
		return fmt.Errorf("the image is longer than %d bytes", limit)
	case update.Size > 0 && n < update.Size:
		return fmt.Errorf("the image ends after %d of %d bytes: %w", n, update.Size, io.ErrUnexpectedEOF)
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// contextReader fails when its context has ended.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (e contextReader) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.Reader.Read(p)
}

// plainName returns a name that fits a file and needs no quoting in a header.
func plainName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f && !strings.ContainsRune(`"\/`, r) {
			return r
		}
		return -1
	}, name)
	if name = strings.TrimLeft(name, "."); name == "" || len(name) > 200 {
		return "firmware.bin"
	}
	return name
}

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

// The components that the library tells apart.
const (
	componentBIOS = "BIOS"
	componentBMC  = "BMC"
)

// maxImage bounds an image, in bytes; the largest known are about 400 MiB.
const maxImage = 2 << 30

func isComponent(name string) bool { return name == componentBIOS || name == componentBMC }

// componentOf finds out what an image is of: from the one target that it is for, from
// the component that the caller knows it is of, or from its name, which makers begin with the component ("BIOS_X11SCM-…"). Empty: it
// does not say.
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

// spool writes an image to a file without a name left, since the library takes
// files only, and tells the BMC their names. It is read from its beginning.
func spool(ctx context.Context, update bmc.Update) (*os.File, error) {
	dir, err := os.MkdirTemp("", "firmware-")
	if err != nil {
		return nil, fmt.Errorf("keep image: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file, err := os.OpenFile(filepath.Join(dir, plainName(update.Filename)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep image: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil { // now: a process that is killed leaves nothing behind
		return nil, errors.Join(fmt.Errorf("keep image: %w", err), file.Close())
	}
	if err := fill(ctx, file, update); err != nil {
		return nil, errors.Join(fmt.Errorf("keep image: %w", err), file.Close())
	}
	return file, nil
}

func fill(ctx context.Context, file *os.File, update bmc.Update) error {
	limit := int64(maxImage)
	if update.Size > 0 {
		limit = min(limit, update.Size)
	}
	n, err := io.Copy(file, io.LimitReader(ended{ctx, update.Image}, limit+1))
	switch {
	case err != nil:
		return err
	case n > limit:
		return fmt.Errorf("it is longer than %d bytes", limit)
	case update.Size > 0 && n < update.Size:
		return fmt.Errorf("it ends after %d of %d bytes: %w", n, update.Size, io.ErrUnexpectedEOF)
	}
	_, err = file.Seek(0, io.SeekStart)
	return err
}

// ended reads until its context has ended.
type ended struct {
	ctx context.Context
	io.Reader
}

func (e ended) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.Reader.Read(p)
}

// plainName keeps what is fit for a file name and needs no quoting in a header.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrImage is returned for input that does not fit an image.
var ErrImage = errors.New("cannot make a CD image")

// Files in the file system of the image.
const (
	// Program is the program that UEFI boots from removable media (UEFI 2.10 section 3.5.1.1, x64).
	Program = "/EFI/BOOT/BOOTX64.EFI"
	// File is the host's file. The stub of a unified kernel image copies .cred files of
	// this directory into the initramfs (/.extra/global_credentials), even with Secure Boot.
	// The file is only as trustworthy as the network that it came from (systemd-stub(7)).
	File = "/loader/credentials/ingot.cred"
	// FileSize is the size of File in bytes. Its content is padded with newlines.
	FileSize = 2048
)

// Template is an image without the host's file. It is safe for concurrent use.
type Template struct {
	program []byte
	// head is everything before the program. The host's file is at fileAt. tail is the
	// number of zero bytes after the program.
	head   []byte
	fileAt int
	tail   int
}

// New makes a template with a program, which must not change afterwards. Errors wrap ErrImage.
func New(program []byte) (*Template, error) {
	if len(program) == 0 {
		return nil, fmt.Errorf("%w: no program", ErrImage)
	}
	l, err := newLayout(len(program))
	if err != nil {
		return nil, err
	}
	f := newFAT(l)
	fileAt, programAt, err := f.fill(len(program))
	if err != nil {
		return nil, err
	}
	disc := isoHeader(f.size)
	t := &Template{program: program, head: append(disc, f.head...), fileAt: len(disc) + fileAt}
	if programAt != len(f.head) {
		return nil, fmt.Errorf("%w: the program would be at %d, not %d", ErrImage, programAt, len(f.head))
	}
	t.tail = len(disc) + roundUp(f.size, isoSector) - len(t.head) - len(program)
	return t, nil
}

// fill adds directories and files, the program last, and returns the positions of the two files.
func (f *fat) fill(programSize int) (fileAt, programAt int, err error) {
	root := f.root()
	efi, efiCluster := f.directory(&root, 0, fatName{short: "EFI        "})
	boot, _ := f.directory(&efi, efiCluster, fatName{short: "BOOT       "})
	loader, loaderCluster := f.directory(&root, 0, fatName{short: "LOADER     ", long: "loader"})
	credentials, _ := f.directory(&loader, loaderCluster, fatName{short: "CREDEN~1   ", long: "credentials"})
	file := f.allocate(FileSize)
	f.grow()
	f.addEntry(&credentials, fatName{short: "INGOT~1 CRE", long: "ingot.cred"}, attrReadOnly, file, FileSize)
	program := f.allocate(programSize)
	f.addEntry(&boot, fatName{short: "BOOTX64 EFI"}, attrReadOnly, program, programSize)
	return f.offset(file), f.offset(program), f.err
}

// Size returns the size of every image in bytes.
func (t *Template) Size() int64 { return int64(len(t.head) + len(t.program) + t.tail) }

// Image returns the image with the host's file: printable text of at most FileSize bytes.
// Errors wrap ErrImage and do not contain the text.
func (t *Template) Image(file []byte) (io.ReadSeeker, error) {
	if len(file) > FileSize {
		return nil, fmt.Errorf("%w: the host's file has %d bytes, limit is %d", ErrImage, len(file), FileSize)
	}
	own := bytes.Repeat([]byte{'\n'}, FileSize)
	copy(own, file)
	return io.NewSectionReader(pieces{t.head[:t.fileAt], own, t.head[t.fileAt+FileSize:], t.program}, 0, t.Size()), nil
}

// pieces reads several byte slices as one, followed by endless zeros.
type pieces [][]byte

func (p pieces) ReadAt(b []byte, at int64) (int, error) {
	n := 0
	for _, piece := range p {
		if size := int64(len(piece)); at >= size {
			at -= size
			continue
		}
		n += copy(b[n:], piece[at:])
		at = 0
	}
	clear(b[n:])
	return len(b), nil
}

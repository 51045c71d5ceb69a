// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrImage reports what makes no image.
var ErrImage = errors.New("cannot make a CD image")

// Places in the file system of the image.
const (
	// Program is what UEFI starts on removable media (UEFI 2.10 §3.5.1.1, x64).
	Program = "/EFI/BOOT/BOOTX64.EFI"
	// File is the host's own. The stub of a unified kernel image puts what ends in
	// .cred there into the initramfs, as AgentFile, whether or not Secure Boot is on:
	// what it says is to be believed no more than the network it came by
	// (systemd-stub(7)).
	File = "/loader/credentials/ingot.cred"
	// AgentFile is where File appears to the booted system.
	AgentFile = "/.extra/global_credentials/ingot.cred"
	// FileSize is the size of File in bytes; what it holds is padded with line ends.
	FileSize = 2048
)

// Template is an image without the host's own file. It is safe for concurrent use.
type Template struct {
	program []byte
	// head is everything before the program, and fileAt where in it the file begins;
	// tail is how many zeroes follow the program.
	head   []byte
	fileAt int
	tail   int
}

// New makes the template of a program, which is not copied and must not change.
// Errors wrap ErrImage.
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

// fill makes directories and files, the program last, and returns where the two
// files begin.
func (f *fat) fill(programSize int) (fileAt, programAt int, err error) {
	root := f.root()
	efi, efiCluster, err := f.directory(&root, 0, fatName{short: "EFI        "})
	if err != nil {
		return 0, 0, err
	}
	boot, _, err := f.directory(&efi, efiCluster, fatName{short: "BOOT       "})
	if err != nil {
		return 0, 0, err
	}
	loader, loaderCluster, err := f.directory(&root, 0, fatName{short: "LOADER     ", long: "loader"})
	if err != nil {
		return 0, 0, err
	}
	credentials, _, err := f.directory(&loader, loaderCluster, fatName{short: "CREDEN~1   ", long: "credentials"})
	if err != nil {
		return 0, 0, err
	}
	file, err := f.allocate(FileSize)
	if err != nil {
		return 0, 0, err
	}
	f.grow()
	f.enter(&credentials, fatName{short: "INGOT~1 CRE", long: "ingot.cred"}, attrReadOnly, file, FileSize)
	program, err := f.allocate(programSize)
	if err != nil {
		return 0, 0, err
	}
	f.enter(&boot, fatName{short: "BOOTX64 EFI"}, attrReadOnly, program, programSize)
	return f.offset(file), f.offset(program), nil
}

// Size is the size of every image in bytes.
func (t *Template) Size() int64 { return int64(len(t.head) + len(t.program) + t.tail) }

// Image returns the image with the host's own file: printable text of at most FileSize
// bytes. Errors wrap ErrImage and do not contain the text.
func (t *Template) Image(file []byte) (io.ReadSeeker, error) {
	if len(file) > FileSize {
		return nil, fmt.Errorf("%w: the host's file has %d bytes, %d fit", ErrImage, len(file), FileSize)
	}
	own := bytes.Repeat([]byte{'\n'}, FileSize)
	copy(own, file)
	return io.NewSectionReader(pieces{t.head[:t.fileAt], own, t.head[t.fileAt+FileSize:], t.program}, 0, t.Size()), nil
}

// pieces reads some byte slices as one, with zeroes after them without end.
type pieces [][]byte

// ReadAt implements io.ReaderAt.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package uki

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Parts are what an image is made of. All are needed, but for OSRelease.
type Parts struct {
	// Stub is the program that starts the kernel: systemd's linuxx64.efi.stub.
	Stub []byte
	// Kernel is a Linux kernel with an EFI entry (bzImage), Initrd its initramfs.
	Kernel, Initrd []byte
	// CommandLine is the kernel's, printable ASCII. With Secure Boot the stub takes
	// no other.
	CommandLine string
	// OSRelease is the text of an os-release file; boot managers show its name.
	OSRelease string
}

// ErrParts reports parts that make no image.
var ErrParts = errors.New("cannot make a unified kernel image")

// page is the size of a memory page: sections begin on one, so that firmware can
// protect them one by one.
const page = 4096

// Build makes the image: the stub with one section more for each part. The same
// parts give the same bytes. Errors wrap ErrParts or ErrFormat.
func Build(parts Parts) ([]byte, error) {
	if len(parts.Kernel) == 0 || len(parts.Initrd) == 0 {
		return nil, fmt.Errorf("%w: the kernel or its initramfs is missing", ErrParts)
	}
	if err := checkCommandLine(parts.CommandLine); err != nil {
		return nil, err
	}
	stub, err := parse(append([]byte(nil), parts.Stub...))
	if err != nil {
		return nil, fmt.Errorf("%w: stub: %w", ErrParts, err)
	}
	// The stub looks for the names; the kernel comes last, as it is what is largest
	// in memory (systemd, ukify).
	added := []added{{".osrel", []byte(parts.OSRelease)}, {".cmdline", []byte(parts.CommandLine)}, {".initrd", parts.Initrd}, {".linux", parts.Kernel}}
	if parts.OSRelease == "" {
		added = added[1:]
	}
	for _, s := range added {
		if stub.has(s.name) {
			return nil, fmt.Errorf("%w: the stub has a section %s already, so it is an image and no stub; give the stub that it was made of", ErrParts, s.name)
		}
	}
	return stub.with(added)
}

// added is a section to be written.
type added struct {
	name string
	data []byte
}

// with returns the program with more sections.
func (p *pe) with(more []added) ([]byte, error) {
	alignment, fileAlignment := uint64(p.u32(atSectionAlignment)), uint64(p.u32(atFileAlignment))
	if alignment == 0 || fileAlignment == 0 || page%alignment != 0 || page%fileAlignment != 0 {
		return nil, fmt.Errorf("%w: sections are aligned to %d and %d bytes", ErrFormat, alignment, fileAlignment)
	}
	table := p.sections + p.count*sectionHeader
	room := min(int(p.u32(atSizeOfHeaders)), len(p.data)) - table
	if room < len(more)*sectionHeader {
		return nil, fmt.Errorf("%w: the stub's headers have room for %d sections, %d are needed", ErrParts, room/sectionHeader, len(more))
	}
	if p.u32(atCertificates) != 0 {
		return nil, fmt.Errorf("%w: the stub is signed: what is added to it would end its signature", ErrParts)
	}
	memory := align(p.end(), page)
	size := align(uint64(len(p.data)), fileAlignment)
	for _, s := range more {
		size += align(uint64(len(s.data)), fileAlignment)
	}
	if size > math.MaxInt32 || memory+size+uint64(len(more))*page > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d bytes are too many", ErrParts, size)
	}
	out := make([]byte, size)
	place := align(uint64(copy(out, p.data)), fileAlignment)
	image := &pe{data: out, optional: p.optional, sections: p.sections, count: p.count + len(more)}
	for i, s := range more {
		raw := align(uint64(len(s.data)), fileAlignment)
		header := out[table+i*sectionHeader:]
		clear(header[:sectionHeader])
		copy(header[:8], s.name)
		for at, value := range map[int]uint64{8: uint64(len(s.data)), 12: memory, 16: raw, 20: place, 36: dataSection} {
			binary.LittleEndian.PutUint32(header[at:], uint32(value))
		}
		copy(out[place:], s.data)
		place, memory = place+raw, align(memory+uint64(len(s.data)), page)
	}
	binary.LittleEndian.PutUint16(out[p.optional-coffHeader+6:], uint16(image.count))
	image.put(atSizeOfImage, uint32(memory))
	image.put(atCheckSum, 0) // firmware does not look at it
	return out, nil
}

// CommandLine returns the command line that is built into an image. It says nothing
// of whether the image is signed, or by whom. Errors wrap ErrFormat.
func CommandLine(image []byte) (string, error) {
	p, err := parse(image)
	if err != nil {
		return "", err
	}
	line, ok := p.find(".cmdline")
	if !ok {
		return "", fmt.Errorf("%w: no command line in it", ErrFormat)
	}
	return strings.TrimRight(string(line), "\x00\n "), nil
}

// IsSigned says whether an image carries a signature; not whether it is right.
func IsSigned(image []byte) bool {
	p, err := parse(image)
	return err == nil && p.u32(atCertificates) != 0 && p.u32(atCertificates+4) != 0
}

// maxCommandLine: x86 Linux takes 2048 bytes with the terminator (COMMAND_LINE_SIZE).
const maxCommandLine = 2047

func checkCommandLine(line string) error {
	if line == "" || len(line) > maxCommandLine {
		return fmt.Errorf("%w: a command line of %d bytes, want 1 to %d", ErrParts, len(line), maxCommandLine)
	}
	for _, r := range line {
		if r < ' ' || r > '~' {
			return fmt.Errorf("%w: the command line holds %q", ErrParts, r)
		}
	}
	return nil
}

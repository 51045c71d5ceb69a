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

// Parts are the parts of an image. All but OSRelease are required.
type Parts struct {
	// Stub is the program that starts the kernel, systemd's linuxx64.efi.stub.
	Stub []byte
	// Kernel is a Linux kernel with EFI entry (bzImage), and Initrd its initramfs.
	Kernel, Initrd []byte
	// CommandLine is the kernel command line, in printable ASCII. With Secure Boot the stub
	// accepts no other.
	CommandLine string
	// OSRelease is the content of an os-release file. Boot managers show its name.
	OSRelease string
}

var ErrParts = errors.New("cannot make a unified kernel image")

// page is the size of a memory page. Sections start on a page, so that firmware can protect
// each of them.
const page = 4096

// Build returns the image: the stub with one more section per part. The same parts give the
// same bytes. Errors wrap ErrParts or ErrFormat.
func Build(parts Parts) ([]byte, error) {
	if len(parts.Kernel) == 0 || len(parts.Initrd) == 0 {
		return nil, fmt.Errorf("%w: kernel or initramfs is missing", ErrParts)
	}
	if err := checkCommandLine(parts.CommandLine); err != nil {
		return nil, err
	}
	stub, err := parse(append([]byte(nil), parts.Stub...))
	if err != nil {
		return nil, fmt.Errorf("%w: stub: %w", ErrParts, err)
	}
	// The stub finds sections by name. The kernel comes last, because it needs the most memory
	// (systemd, ukify).
	added := []added{{".osrel", []byte(parts.OSRelease)}, {".cmdline", []byte(parts.CommandLine)}, {".initrd", parts.Initrd}, {".linux", parts.Kernel}}
	if parts.OSRelease == "" {
		added = added[1:]
	}
	for _, s := range added {
		if stub.has(s.name) {
			return nil, fmt.Errorf("%w: the stub already has a section %s, so it is a complete image; use its stub instead", ErrParts, s.name)
		}
	}
	return stub.with(added)
}

type added struct {
	name string
	data []byte
}

func (p *pe) with(more []added) ([]byte, error) {
	alignment, fileAlignment := uint64(p.u32(atSectionAlignment)), uint64(p.u32(atFileAlignment))
	if alignment == 0 || fileAlignment == 0 || page%alignment != 0 || page%fileAlignment != 0 {
		return nil, fmt.Errorf("%w: sections are aligned to %d and %d bytes", ErrFormat, alignment, fileAlignment)
	}
	table := p.sections + p.count*sectionHeader
	room := min(int(p.u32(atSizeOfHeaders)), len(p.data)) - table
	if room < len(more)*sectionHeader {
		return nil, fmt.Errorf("%w: the stub's headers fit %d more sections, but %d are needed", ErrParts, room/sectionHeader, len(more))
	}
	if p.u32(atCertificates) != 0 {
		return nil, fmt.Errorf("%w: the stub is signed, and more sections would invalidate its signature", ErrParts)
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
	image.put(atCheckSum, 0) // firmware ignores it
	return out, nil
}

// CommandLine returns the command line of an image, regardless of its signature. Errors wrap
// ErrFormat.
func CommandLine(image []byte) (string, error) {
	p, err := parse(image)
	if err != nil {
		return "", err
	}
	line, ok := p.find(".cmdline")
	if !ok {
		return "", fmt.Errorf("%w: it has no command line", ErrFormat)
	}
	return strings.TrimRight(string(line), "\x00\n "), nil
}

// IsSigned reports whether an image has a signature. It does not verify it.
func IsSigned(image []byte) bool {
	p, err := parse(image)
	return err == nil && p.u32(atCertificates) != 0 && p.u32(atCertificates+4) != 0
}

// maxCommandLine is the limit of x86 Linux without the terminator (COMMAND_LINE_SIZE).
const maxCommandLine = 2047

func checkCommandLine(line string) error {
	if line == "" || len(line) > maxCommandLine {
		return fmt.Errorf("%w: the command line has %d bytes, want 1 to %d", ErrParts, len(line), maxCommandLine)
	}
	for _, r := range line {
		if r < ' ' || r > '~' {
			return fmt.Errorf("%w: the command line contains %q", ErrParts, r)
		}
	}
	return nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package uki

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrFormat is returned for a file that is not a supported UEFI program.
var ErrFormat = errors.New("not a UEFI program for x64 (PE32+)")

// Offsets and sizes from "PE Format" (Microsoft): MS-DOS stub, COFF file header, optional header
// of PE32+, and section table.
const (
	dosHeader      = 64
	peOffset       = 0x3c
	coffHeader     = 24 // with the signature "PE\0\0"
	optionalHeader = 112
	sectionHeader  = 40
	maxSections    = 96

	machineX64    = 0x8664
	magicPE32Plus = 0x20b

	atSectionAlignment = 32
	atFileAlignment    = 36
	atSizeOfImage      = 56
	atSizeOfHeaders    = 60
	atCheckSum         = 64
	atDirectories      = 108
	// atCertificates is the certificate table in the data directories.
	atCertificates = optionalHeader + 4*8

	dataSection = 0x40000040 // initialized data, readable
)

type pe struct {
	data []byte
	// optional and sections are the positions of these headers.
	optional, sections int
	count              int
}

type section struct {
	name                                    string
	virtualSize, virtualAddress, raw, place uint32
}

func parse(data []byte) (*pe, error) {
	if len(data) < dosHeader || data[0] != 'M' || data[1] != 'Z' {
		return nil, fmt.Errorf("%w: no MS-DOS header", ErrFormat)
	}
	at := int64(binary.LittleEndian.Uint32(data[peOffset:]))
	if at+coffHeader+optionalHeader > int64(len(data)) || string(data[at:at+4]) != "PE\x00\x00" {
		return nil, fmt.Errorf("%w: no PE header", ErrFormat)
	}
	header := data[at:]
	p := &pe{data: data, optional: int(at) + coffHeader, count: int(binary.LittleEndian.Uint16(header[6:]))}
	size := int(binary.LittleEndian.Uint16(header[20:]))
	p.sections = p.optional + size
	switch {
	case binary.LittleEndian.Uint16(header[4:]) != machineX64, binary.LittleEndian.Uint16(data[p.optional:]) != magicPE32Plus:
		return nil, fmt.Errorf("%w: another machine or format", ErrFormat)
	case size < atCertificates+8 || p.u32(atDirectories) < 5:
		return nil, fmt.Errorf("%w: optional header of %d bytes", ErrFormat, size)
	case p.count > maxSections || p.sections+p.count*sectionHeader > len(data):
		return nil, fmt.Errorf("%w: %d sections in %d bytes", ErrFormat, p.count, len(data))
	}
	return p, nil
}

func (p *pe) u32(at int) uint32 { return binary.LittleEndian.Uint32(p.data[p.optional+at:]) }

func (p *pe) put(at int, value uint32) {
	binary.LittleEndian.PutUint32(p.data[p.optional+at:], value)
}

func (p *pe) section(i int) section {
	h := p.data[p.sections+i*sectionHeader:]
	name, _, _ := bytes.Cut(h[:8], []byte{0})
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	return section{name: string(name), virtualSize: u32(8), virtualAddress: u32(12), raw: u32(16), place: u32(20)}
}

// find returns the content of the section with a name, or false if there is none or it lies
// outside of the file.
func (p *pe) find(name string) ([]byte, bool) {
	for i := range p.count {
		s := p.section(i)
		if s.name != name {
			continue
		}
		from, to := uint64(s.place), uint64(s.place)+uint64(min(s.virtualSize, s.raw))
		if to > uint64(len(p.data)) {
			return nil, false
		}
		return p.data[from:to], true
	}
	return nil, false
}

func (p *pe) has(name string) bool {
	for i := range p.count {
		if p.section(i).name == name {
			return true
		}
	}
	return false
}

// end returns the first free memory address of the program.
func (p *pe) end() uint64 {
	end := uint64(p.u32(atSizeOfImage))
	for i := range p.count {
		s := p.section(i)
		end = max(end, uint64(s.virtualAddress)+uint64(max(s.virtualSize, s.raw)))
	}
	return end
}

func align(n, to uint64) uint64 { return (n + to - 1) / to * to }

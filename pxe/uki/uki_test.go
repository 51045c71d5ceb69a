// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package uki

import (
	"bytes"
	stdpe "debug/pe"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// newStub returns a minimal program for parse: one section and space for more.
func newStub(change func([]byte)) []byte {
	const at, optional = 0x80, 0x80 + coffHeader
	b := make([]byte, 0x600)
	copy(b, "MZ")
	b[peOffset] = at
	copy(b[at:], "PE\x00\x00")
	put16 := func(at int, v uint16) { binary.LittleEndian.PutUint16(b[at:], v) }
	put32 := func(at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }
	put16(at+4, machineX64)
	put16(at+6, 1)
	put16(at+20, 240)
	put16(optional, magicPE32Plus)
	put32(optional+atSectionAlignment, 0x200)
	put32(optional+atFileAlignment, 0x200)
	put32(optional+atSizeOfImage, 0x5100)
	put32(optional+atSizeOfHeaders, 0x400)
	put32(optional+atCheckSum, 0x1234)
	put32(optional+atDirectories, 16)
	section := optional + 240
	copy(b[section:], ".text")
	put32(section+8, 0x180)
	put32(section+12, 0x5000)
	put32(section+16, 0x200)
	put32(section+20, 0x400)
	copy(b[0x400:], "the program")
	if change != nil {
		change(b)
	}
	return b
}

func parts(stub []byte) Parts {
	return Parts{Stub: stub, Kernel: bytes.Repeat([]byte("K"), 5000), Initrd: []byte("initramfs"), CommandLine: "quiet ingot.pin=sha256/abc", OSRelease: "ID=ingot\n"}
}

// Another reader of PE files sees the expected sections.
func TestBuild(t *testing.T) {
	image, err := Build(parts(newStub(nil)))
	if err != nil {
		t.Fatal(err)
	}
	file, err := stdpe.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		Name            string
		Address, Length uint32
		Content         string
	}
	var got []seen
	for _, s := range file.Sections {
		content, err := s.Data()
		if err != nil {
			t.Fatal(err)
		}
		if s.Offset%0x200 != 0 || s.Size%0x200 != 0 {
			t.Errorf("%s is at %#x, %#x long: not aligned", s.Name, s.Offset, s.Size)
		}
		got = append(got, seen{s.Name, s.VirtualAddress, s.VirtualSize, string(content[:min(len(content), int(s.VirtualSize), 30)])})
	}
	want := []seen{
		{".text", 0x5000, 0x180, "the program" + strings.Repeat("\x00", 19)},
		{".osrel", 0x6000, 9, "ID=ingot\n"},
		{".cmdline", 0x7000, 26, "quiet ingot.pin=sha256/abc"},
		{".initrd", 0x8000, 9, "initramfs"},
		{".linux", 0x9000, 5000, strings.Repeat("K", 30)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	header, ok := file.OptionalHeader.(*stdpe.OptionalHeader64)
	if !ok || header.SizeOfImage != 0xb000 || header.CheckSum != 0 {
		t.Errorf("optional header %+v", file.OptionalHeader)
	}
	again, err := Build(parts(newStub(nil)))
	if err != nil || !bytes.Equal(again, image) {
		t.Errorf("the same parts gave other bytes (%v)", err)
	}
	if line, err := CommandLine(image); err != nil || line != "quiet ingot.pin=sha256/abc" {
		t.Errorf("command line %q, %v", line, err)
	}
}

func TestBuildRefuses(t *testing.T) {
	put := func(at int, v uint32) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint32(b[0x80+coffHeader+at:], v) }
	}
	image, err := Build(parts(newStub(nil)))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		parts Parts
		want  string
	}{
		"an image as stub":   {parts(image), "has a section"},
		"no kernel":          {func() Parts { p := parts(newStub(nil)); p.Kernel = nil; return p }(), "kernel"},
		"no initramfs":       {func() Parts { p := parts(newStub(nil)); p.Initrd = nil; return p }(), "initramfs"},
		"no command line":    {func() Parts { p := parts(newStub(nil)); p.CommandLine = ""; return p }(), "command line has 0 bytes"},
		"long command line":  {func() Parts { p := parts(newStub(nil)); p.CommandLine = strings.Repeat("a", 2048); return p }(), "2048 bytes"},
		"two lines":          {func() Parts { p := parts(newStub(nil)); p.CommandLine = "a\nb"; return p }(), `'\n'`},
		"empty stub":         {parts(nil), "no MS-DOS header"},
		"a Linux program":    {parts([]byte("\x7fELF" + strings.Repeat("x", 100))), "no MS-DOS header"},
		"cut off":            {parts(newStub(nil)[:0x90]), "no PE header"},
		"32 bits":            {parts(newStub(func(b []byte) { b[0x80+4] = 0x4c })), "another machine"},
		"signed":             {parts(newStub(put(atCertificates, 0x600))), "signed"},
		"no room in headers": {parts(newStub(put(atSizeOfHeaders, 0x200))), "more sections"},
		"strange alignment":  {parts(newStub(put(atSectionAlignment, 0x300))), "aligned"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Build(tc.parts)
			if !errors.Is(err, ErrParts) && !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestIsSigned(t *testing.T) {
	signed := newStub(func(b []byte) {
		binary.LittleEndian.PutUint32(b[0x80+coffHeader+atCertificates:], 0x600)
		binary.LittleEndian.PutUint32(b[0x80+coffHeader+atCertificates+4:], 0x100)
	})
	if IsSigned(newStub(nil)) || !IsSigned(signed) || IsSigned([]byte("MZ")) {
		t.Error("a signature is not detected")
	}
}

// The real stub has space for the added sections.
func TestDebiansStub(t *testing.T) {
	stub, err := os.ReadFile("/usr/lib/systemd/boot/efi/linuxx64.efi.stub")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("systemd-boot-efi is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	image, err := Build(parts(stub))
	if err != nil {
		t.Fatal(err)
	}
	if line, err := CommandLine(image); err != nil || line != "quiet ingot.pin=sha256/abc" {
		t.Errorf("command line %q, %v", line, err)
	}
}

// FuzzCommandLine: no input file causes a panic.
func FuzzCommandLine(f *testing.F) {
	image, err := Build(parts(newStub(nil)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(image)
	f.Add(newStub(nil))
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		line, err := CommandLine(data)
		if err == nil && len(line) > len(data) {
			t.Error("a line longer than its file")
		}
		_ = IsSigned(data)
		p := parts(data)
		if built, err := Build(p); err == nil {
			if _, err := CommandLine(built); err != nil {
				t.Errorf("what was built cannot be read: %v", err)
			}
		}
	})
}

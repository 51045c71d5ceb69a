// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/uki"
)

// stub returns a minimal UEFI program that can get sections.
func stub() []byte {
	const at, optional = 0x80, 0x80 + 24
	b := make([]byte, 0x400)
	copy(b, "MZ")
	b[0x3c] = at
	copy(b[at:], "PE\x00\x00")
	for at, v := range map[int]uint16{at + 4: 0x8664, at + 20: 240, optional: 0x20b} {
		binary.LittleEndian.PutUint16(b[at:], v)
	}
	for at, v := range map[int]uint32{32: 0x200, 36: 0x200, 56: 0x1000, 60: 0x400, 108: 16} {
		binary.LittleEndian.PutUint32(b[optional+at:], v)
	}
	return b
}

// agentDir writes the files of an agent image and more files.
func agentDir(t *testing.T, more map[string][]byte) *Options {
	t.Helper()
	o := DefaultOptions()
	o.AgentImageDir, o.ImageCacheDir, o.AgentArguments = t.TempDir(), filepath.Join(t.TempDir(), "cache"), []string{"console=ttyS0"}
	files := map[string][]byte{agentStub: stub(), agentKernel: []byte("kernel"), agentInitramfs: []byte("initramfs")}
	for name, data := range more {
		files[name] = data
	}
	for name, data := range files {
		if data == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(o.AgentImageDir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestLoadUKI(t *testing.T) {
	pins := []token.Pin{token.PinOf([]byte("a")), token.PinOf([]byte("b"))}
	image := func(line string) []byte {
		b, err := uki.Build(uki.Parts{Stub: stub(), Kernel: []byte("k"), Initrd: []byte("i"), CommandLine: line})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, tc := range map[string]struct {
		more    map[string][]byte
		missing bool
		err     string
	}{
		"made":                              {},
		"no stub":                           {more: map[string][]byte{agentStub: nil}, missing: true},
		"a stub that is none":               {more: map[string][]byte{agentStub: []byte("x")}, err: "not a UEFI program"},
		"given":                             {more: map[string][]byte{agentUKI: image("quiet ingot.pin=" + string(pins[0]))}},
		"given, with the next pin":          {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(pins[1]) + "," + string(pins[0]))}},
		"given, of another manager":         {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(token.PinOf([]byte("c"))))}, err: "no ingot.pin with the pin of this manager"},
		"given, with another's pin as well": {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(pins[0]) + "," + string(token.PinOf([]byte("c"))))}, err: "not a pin of this manager"},
		"given, with an empty pin as well":  {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(pins[0]) + ",")}, err: "not a pin of this manager"},
		"given, another's pin comes later":  {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(pins[0]) + " ingot.pin=" + string(token.PinOf([]byte("c"))))}, err: "no ingot.pin with the pin of this manager"},
		"given, another's pin comes first":  {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(token.PinOf([]byte("c"))) + " ingot.pin=" + string(pins[0]))}, err: "more than once"},
		"given, another's pin in quotes":    {more: map[string][]byte{agentUKI: image("ingot.pin=" + string(pins[0]) + ` "ingot.pin=` + string(token.PinOf([]byte("c"))) + `"`)}, err: "more than once"},
		"given, without a pin":              {more: map[string][]byte{agentUKI: image("quiet")}, err: "no ingot.pin"},
		"given, and not an image":           {more: map[string][]byte{agentUKI: []byte("x")}, err: "not a UEFI program"},
		"given, and no stub to make":        {more: map[string][]byte{agentStub: nil, agentUKI: image("ingot.pin=" + string(pins[0]))}},
	} {
		t.Run(name, func(t *testing.T) {
			o, files := agentDir(t, tc.more), &pxe.Files{}
			got, ok, err := loadUKI(o, pins, files)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || ok == tc.missing || (got.disc == nil) != tc.missing {
				t.Fatalf("got %+v, %v, %v", got, ok, err)
			}
			if tc.missing {
				return
			}
			src, _, err := files.Open(got.file)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			if got.file.Name != agentUKI {
				t.Errorf("served as %s", got.file.Name)
			}
		})
	}
}

// PrintUnified writes the image that would be served, and the signed image is accepted.
func TestPrintUnified(t *testing.T) {
	o := agentDir(t, nil)
	o.AgentKeyDir = t.TempDir()
	pin := token.PinOf([]byte("a"))
	for name, data := range map[string]string{token.FileHMAC: strings.Repeat("k", token.MinKeyBytes), token.FilePins: string(pin) + "\n"} {
		if err := os.WriteFile(filepath.Join(o.AgentKeyDir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := PrintUnified(o, &out); err != nil {
		t.Fatal(err)
	}
	line, err := uki.CommandLine(out.Bytes())
	if want := "quiet console=ttyS0 ingot.pin=" + string(pin); err != nil || line != want {
		t.Errorf("command line %q, %v, want %q", line, err, want)
	}
	if err := checkUKI(out.Bytes(), []token.Pin{pin}); err != nil {
		t.Error(err)
	}
	o.AgentKeyDir = t.TempDir()
	if err := PrintUnified(o, &out); err == nil || !strings.Contains(err.Error(), "--agent-key-dir") {
		t.Errorf("without keys: %v", err)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compact is hex without trailing zeroes.
func compact(b []byte) string {
	return hex.EncodeToString([]byte(strings.TrimRight(string(b), "\x00")))
}

// The golden layouts are those of linux/nvme_ioctl.h, scsi/sg.h and SAT-4.
func TestEncodings(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []byte
		size int
		want string
	}{
		{
			"identify controller", arr(encodeNVMe(NVMeCommand{Opcode: nvmeIdentify, CDW10: cnsController, Data: make([]byte, 4096), Timeout: time.Minute})), 72,
			"06" + strings.Repeat("00", 35) + "00100000" + "01000000" + strings.Repeat("00", 20) + "60ea",
		},
		{
			"sanitize by block erase", arr(encodeNVMe(NVMeCommand{Opcode: nvmeSanitize, CDW10: sanitizeBlock | sanitizeMayFail})), 72,
			"84" + strings.Repeat("00", 39) + "0a",
		},
		{
			"format namespace 3 by its key, LBA format 1", arr(encodeNVMe(NVMeCommand{Opcode: nvmeFormat, Namespace: 3, CDW10: 1 | formatKey<<9, Timeout: 2 * time.Hour})), 72,
			"8000000003" + strings.Repeat("00", 35) + "0104" + strings.Repeat("00", 22) + "00dd6d",
		},
		{"identify device", arr16(encodePassThrough(ATACommand{Command: ataIdentify, In: make([]byte, 512)})), 16, "85080e00000001" + strings.Repeat("00", 7) + "ec"},
		{"set password", arr16(encodePassThrough(ATACommand{Command: ataSetPassword, Out: make([]byte, 512)})), 16, "850a0600000001" + strings.Repeat("00", 7) + "f1"},
		{"erase prepare", arr16(encodePassThrough(ATACommand{Command: ataErasePrepare})), 16, "8506" + strings.Repeat("00", 12) + "f3"},
		{
			"SG_IO from the disk", arr88(encodeSG(ATACommand{In: make([]byte, 512), Timeout: time.Minute})), 88,
			"53000000" + "fdffffff" + "1040" + "0000" + "00020000" + strings.Repeat("00", 24) + "60ea",
		},
		{
			"SG_IO to the disk, a week", arr88(encodeSG(ATACommand{Out: make([]byte, 512), Timeout: 7 * 24 * time.Hour})), 88,
			"53000000" + "feffffff" + "1040" + "0000" + "00020000" + strings.Repeat("00", 24) + "00840c24",
		},
		{"SG_IO without data", arr88(encodeSG(ATACommand{})), 88, "53000000" + "ffffffff" + "1040"},
		{"security block", securityBlock(false), 512, "0000" + hex.EncodeToString([]byte("INGOT-ERASE"))},
		{"security block, enhanced", securityBlock(true), 512, "0200" + hex.EncodeToString([]byte("INGOT-ERASE"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, compact(c.got)); diff != "" || len(c.got) != c.size {
				t.Errorf("%d bytes: %s", len(c.got), diff)
			}
		})
	}
}

func arr(b [72]byte) []byte   { return b[:] }
func arr16(b [16]byte) []byte { return b[:] }
func arr88(b [88]byte) []byte { return b[:] }

// The answers are those of real drives in the relevant words.
func TestParseIdentify(t *testing.T) {
	identify := func(words map[int]uint16) []byte {
		b := make([]byte, 512)
		for n, w := range words {
			binary.LittleEndian.PutUint16(b[2*n:], w)
		}
		return b
	}
	for _, c := range []struct {
		name string
		in   []byte
		want ataSecurity
	}{
		{"none", identify(nil), ataSecurity{}},
		{
			"a flash drive, frozen", identify(map[int]uint16{82: 0x746b, 89: 1, 90: 1, 128: 0x0029}),
			ataSecurity{supported: true, frozen: true, enhanced: true, normalTime: 2 * time.Minute, enhancedTime: 2 * time.Minute},
		},
		{
			"a spinning drive, long form", identify(map[int]uint16{82: 0x346b, 89: 0x8000 | 900, 128: 0x0001}),
			ataSecurity{supported: true, normalTime: 30 * time.Hour},
		},
		{
			"locked after a power cut", identify(map[int]uint16{82: 0x346b, 89: 0xfe, 128: 0x0107}),
			ataSecurity{supported: true, enabled: true, locked: true, normalTime: 508 * time.Minute},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, parseIdentify(c.in), cmp.AllowUnexported(ataSecurity{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseSanitizeLog(t *testing.T) {
	b := make([]byte, 512)
	copy(b, []byte{0x00, 0x80, 0x02, 0x01, 0x0a, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x3c, 0, 0, 0, 0x02, 0, 0, 0})
	want := sanitizeStatus{state: 2, percent: 50, estimate: time.Minute}
	if diff := cmp.Diff(want, parseSanitizeLog(b), cmp.AllowUnexported(sanitizeStatus{})); diff != "" {
		t.Error(diff)
	}
}

func TestFormatLayout(t *testing.T) {
	for _, c := range []struct {
		flbas, dps uint8
		want       uint32
	}{{0, 0, 0}, {1, 0, 1}, {0x12, 0x09, 1<<8 | 1<<5 | 1<<4 | 2}, {0x61, 0, 3<<12 | 1}} {
		if got := formatLayout(c.flbas, c.dps); got != c.want {
			t.Errorf("FLBAS %#x, DPS %#x: %#x, want %#x", c.flbas, c.dps, got, c.want)
		}
	}
}

func TestCheckSG(t *testing.T) {
	header := func(status, sense byte, host uint16) (h [sgSize]byte) {
		h[64], h[67] = status, sense
		binary.LittleEndian.PutUint16(h[68:], host)
		return h
	}
	for _, c := range []struct {
		name   string
		header [sgSize]byte
		sense  []byte
		want   error
		fails  bool
	}{
		{name: "good", header: header(0, 0, 0)},
		{name: "recovered, with the registers", header: header(2, 22, 0), sense: []byte{0x72, 0x01, 0x00, 0x1d}},
		{name: "aborted", header: header(2, 22, 0), sense: []byte{0x72, 0x0b, 0, 0}, fails: true},
		{name: "unknown, fixed format", header: header(2, 18, 0), sense: []byte{0x70, 0, 0x05, 0}, want: ErrNotSupported, fails: true},
		{name: "unknown, descriptor format", header: header(2, 8, 0), sense: []byte{0x72, 0x05, 0x20, 0}, want: ErrNotSupported, fails: true},
		{name: "the adapter timed out", header: header(0, 0, 3), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkSG(c.header, c.sense)
			if (err != nil) != c.fails || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 512 {
			return
		}
		if s := parseSanitizeLog(b); s.percent < 0 || s.percent > 100 || s.estimate < 0 {
			t.Errorf("%+v", s)
		}
		if s := parseIdentify(b); s.normalTime < 0 || s.enhancedTime > 1<<16*time.Minute {
			t.Errorf("%+v", s)
		}
	})
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bytes"
	"testing"
	"unicode/utf8"
)

// testKeys returns arbitrary session keys.
func testKeys(s suite) *keys {
	return &keys{suite: s, k1: bytes.Repeat([]byte{1}, 32), k2: bytes.Repeat([]byte{2}, 32)}
}

// FuzzPackets parses packets from any sender.
func FuzzPackets(f *testing.F) {
	for _, s := range suites() {
		p, err := testKeys(s).seal(payloadIPMI, 7, 1, message(netFnApp, 1, 1, []byte{1, 2, 3}))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
		f.Add(p[:len(p)-1])
	}
	f.Add(plainPacket(payloadOpenResponse, make([]byte, 36)))
	f.Add(request15(netFnApp, 0x38, 1, []byte{0x8e, 4}))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _, _ = openPlain(p)
		_, _ = parse15(p)
		_, _ = parseMessage(p)
		_ = parseSuites(p)
		for _, s := range suites() {
			k := testKeys(s)
			_, _, payload, err := k.unseal(p, 7)
			if err == nil && len(payload) > len(p) {
				t.Errorf("%d bytes out of %d", len(payload), len(p))
			}
		}
	})
}

// FuzzSealed opens packets of a BMC that knows the password.
func FuzzSealed(f *testing.F) {
	f.Add(byte(payloadIPMI), uint32(1), message(netFnApp, 1, 1, nil))
	f.Add(byte(payloadSOL), uint32(2), []byte{1, 0, 0, 0, 'x'})
	f.Fuzz(func(t *testing.T, kind byte, sequence uint32, payload []byte) {
		if len(payload) > 1<<15 {
			return
		}
		for _, s := range suites() {
			p, err := testKeys(s).seal(kind&0x3f, 7, sequence, payload)
			if err != nil {
				t.Fatal(err)
			}
			gotKind, gotSequence, got, err := testKeys(s).unseal(p, 7)
			if err != nil || gotKind != kind&0x3f || gotSequence != sequence || !bytes.Equal(got, payload) {
				t.Errorf("suite %d: %d %d %x, %v", s.id, gotKind, gotSequence, got, err)
			}
			p[len(p)/2] ^= 1
			if _, _, _, err := testKeys(s).unseal(p, 7); err == nil {
				t.Errorf("suite %d: a modified packet was opened", s.id)
			}
		}
	})
}

// FuzzFRU shows that the texts of any FRU are short and printable.
func FuzzFRU(f *testing.F) {
	f.Add([]byte{1, 0, 0, 0, 1, 0, 0, 0xfe}, []byte{1, 1, 0, 0xc3, 'a', 'b', 'c', 0xc1})
	f.Add([]byte{1, 0, 1, 1, 1, 0, 0, 0xfc}, []byte{0x83, 0x29, 0xdc, 0xa6, 0x42, 0x12, 0x34, 0xc1})
	f.Fuzz(func(t *testing.T, header, area []byte) {
		areas := areasOf(header)
		if len(areas) > 3 {
			t.Errorf("%d areas", len(areas))
		}
		var out fru
		sum := append(bytes.Clone(area), checksum(area))
		for _, a := range areas {
			*a.into(&out) = parseTexts(area, a.texts)
			*a.into(&out) = parseTexts(sum, a.texts)
		}
		for _, s := range []string{out.serial(), out.manufacturer(), out.model()} {
			if len(s) > 2*63 || !utf8.ValidString(s) {
				t.Errorf("text %q", s)
			}
		}
	})
}

// FuzzRecords parses any sensor record, reading and log entry.
func FuzzRecords(f *testing.F) {
	full := append([]byte{1, 0, 0x51, 1, 48, 0x20, 0, 1}, make([]byte, 45)...)
	f.Add(full, []byte{42, 0xc0, 0})
	f.Add([]byte{1, 0, 0x51, 2, 30, 0x20, 0, 1}, []byte{0, 0xc0, 0xff, 0x80})
	f.Add([]byte{1, 0, 2, 0, 0, 0, 0x60, 0x20, 0, 4, 4, 2, 1, 0x52, 0, 0}, []byte{1, 0})
	f.Fuzz(func(t *testing.T, raw, reading []byte) {
		if r, ok := parseRecord(raw); ok && len(reading) >= 2 {
			if c, ok := r.component(reading); ok && (c.Kind == "" || len(c.Name) > 64 || !utf8.ValidString(c.Name+c.Reading)) {
				t.Errorf("component %+v", c)
			}
		}
		if len(raw) >= 16 {
			if e := parseEntry(raw[:16]); e.ID == "" || e.Message == "" || len(e.Message) > 256 {
				t.Errorf("entry %+v", e)
			}
		}
	})
}

// FuzzGUID shows that a UUID has 36 characters or is empty.
func FuzzGUID(f *testing.F) {
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != 16 {
			return
		}
		if u := parseGUID([16]byte(raw)); len(u) != 36 && u != "" {
			t.Errorf("UUID %q", u)
		}
	})
}

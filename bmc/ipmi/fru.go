// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxFRU bounds the bytes that are read of a FRU: at most three areas.
	maxFRU = 3 * 255 * 8
	// fruChunk is the size of one read, and fruLeastChunk the size for limited BMCs.
	fruChunk, fruLeastChunk = 32, 8
)

// fru holds the texts of the areas in their order (Platform Management FRU Information
// Storage Definition v1.3).
type fru struct {
	// chassis: part, serial. board: manufacturer, product, serial, part. product:
	// manufacturer, name, part, version, serial.
	chassis, board, product []string
}

func (f fru) serial() string { return cmp.Or(at(f.product, 4), at(f.chassis, 1), at(f.board, 2)) }

func (f fru) manufacturer() string { return cmp.Or(at(f.product, 0), at(f.board, 0)) }

func (f fru) model() string { return cmp.Or(at(f.product, 1), at(f.board, 1)) }

func at(texts []string, i int) string {
	if i < len(texts) {
		return texts[i]
	}
	return ""
}

// fru reads FRU 0, the server's. It returns an empty fru if the BMC has none or an invalid
// one, because the rest of the identity still counts.
func (c *conn) fru(ctx context.Context) (fru, error) {
	info, err := c.run(ctx, command{what: "read FRU size", netFn: netFnStorage, code: 0x10, data: []byte{0}, minLen: 3})
	if err != nil {
		return fru{}, ignoreCode(err)
	}
	r := &fruReader{conn: c, size: int(binary.LittleEndian.Uint16(info)), words: info[2]&1 != 0, chunk: fruChunk}
	header, err := r.read(ctx, 0, 8)
	if err != nil {
		return fru{}, ignoreCode(err)
	}
	var f fru
	for _, area := range areasOf(header) {
		start, err := r.read(ctx, area.offset, 2)
		if err != nil {
			return fru{}, ignoreCode(err)
		}
		if len(start) < 2 || int(start[1])*8 < 2 {
			continue
		}
		data, err := r.read(ctx, area.offset, int(start[1])*8)
		if err != nil {
			return fru{}, ignoreCode(err)
		}
		*area.into(&f) = parseTexts(data, area.texts)
	}
	return f, nil
}

// ignoreCode drops a final refusal, which means that the BMC lacks the data.
func ignoreCode(err error) error {
	if isAnyCode(err) && !errors.Is(err, bmc.ErrBusy) && !errors.Is(err, bmc.ErrUnauthorized) {
		return nil
	}
	return err
}

// wantsShorterRead reports whether a read may work with fewer bytes. The correct codes for a read
// that is too long are C7h, C8h and CAh. BMCs also use C9h and CCh (parameter, offset), CBh (missing
// record), C3h (timeout) and FFh (no reason).
func wantsShorterRead(err error) bool {
	return isCode(err, 0xc3, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xff)
}

// fruArea is one area with the offset of its texts.
type fruArea struct {
	offset, texts int
	into          func(*fru) *[]string
}

// areasOf parses the common header (§8); it returns nil for a wrong checksum.
func areasOf(header []byte) []fruArea {
	if len(header) < 8 || header[0]&0x0f != 1 || checksum(header[:8]) != 0 {
		return nil
	}
	var areas []fruArea
	for _, a := range []fruArea{
		{int(header[2]) * 8, 3, func(f *fru) *[]string { return &f.chassis }}, // §10
		{int(header[3]) * 8, 6, func(f *fru) *[]string { return &f.board }},   // §11
		{int(header[4]) * 8, 3, func(f *fru) *[]string { return &f.product }}, // §12
	} {
		if a.offset != 0 {
			areas = append(areas, a)
		}
	}
	return areas
}

// parseTexts parses type/length texts up to the end mark C1h (§13). It returns nil for a
// wrong checksum.
func parseTexts(area []byte, from int) []string {
	if len(area) < from || checksum(area) != 0 {
		return nil
	}
	var texts []string
	for rest := area[from:]; len(rest) > 0 && rest[0] != 0xc1; {
		kind, n := rest[0]>>6, int(rest[0]&0x3f)
		if 1+n > len(rest) {
			break
		}
		texts = append(texts, text(kind, rest[1:1+n]))
		rest = rest[1+n:]
	}
	return texts
}

// text decodes a text and keeps its printable characters.
func text(kind byte, raw []byte) string {
	var b strings.Builder
	switch kind {
	case 0: // binary
	case 1: // BCD plus
		for _, x := range raw {
			b.WriteByte("0123456789 -.???"[x>>4])
			b.WriteByte("0123456789 -.???"[x&0x0f])
		}
	case 2: // six bits per character, packed from the low end
		bits, have := 0, 0
		for _, x := range raw {
			bits |= int(x) << have
			for have += 8; have >= 6; have -= 6 {
				b.WriteByte(byte(bits&0x3f) + ' ')
				bits >>= 6
			}
		}
	case 3:
		for _, x := range raw {
			if x >= ' ' && x < 0x7f {
				b.WriteByte(x)
			}
		}
	}
	return strings.TrimSpace(b.String())
}

// fruReader reads a FRU in pieces (§34.2).
type fruReader struct {
	conn  *conn
	size  int
	words bool
	chunk int
	total int
}

// read returns n bytes from offset, or fewer at the end of the FRU.
func (r *fruReader) read(ctx context.Context, offset, n int) ([]byte, error) {
	n = min(n, r.size-offset)
	out := make([]byte, 0, max(n, 0))
	for len(out) < n && r.total < maxFRU {
		at, count := offset+len(out), min(n-len(out), r.chunk)
		unit := 1
		if r.words {
			unit, count = 2, count&^1
		}
		data, err := r.conn.run(ctx, command{
			what: "read FRU", netFn: netFnStorage, code: 0x11, minLen: 1,
			data: []byte{0, byte(at / unit), byte(at / unit >> 8), byte(count / unit)},
		})
		if wantsShorterRead(err) && r.chunk > fruLeastChunk {
			r.chunk /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		got := min(int(data[0])*unit, len(data)-1, count)
		if got == 0 {
			break
		}
		out = append(out, data[1:1+got]...)
		r.total += got
	}
	return out, nil
}

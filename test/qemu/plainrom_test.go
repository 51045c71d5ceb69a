// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"bytes"
	"net"
)

// plainROM makes QEMU's ROM look like any maker's PXE ROM: it takes the options
// by which iPXE makes itself known (77 and 175) out of the requests. The ROM
// then fetches the loader by TFTP. The loader shows itself by the broadcast
// flag, which the ROM does not set; its requests pass untouched.
type plainROM struct{ net.PacketConn }

// Offsets in a BOOTP packet (RFC 951, RFC 2131 §2).
const (
	flagsAt   = 10
	optionsAt = 240
)

func (c *plainROM) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := c.PacketConn.ReadFrom(b)
	if err != nil || n < optionsAt || b[flagsAt]&0x80 != 0 {
		return n, from, err
	}
	return len(withoutIPXE(b[:n])), from, nil
}

// withoutIPXE removes the two options in place.
func withoutIPXE(p []byte) []byte {
	var kept bytes.Buffer
	for o := p[optionsAt:]; len(o) > 0; {
		size := 1
		if o[0] != 0 && o[0] != 255 {
			if len(o) < 2 || len(o) < 2+int(o[1]) {
				return p
			}
			size = 2 + int(o[1])
		}
		if o[0] != 77 && o[0] != 175 {
			kept.Write(o[:size])
		}
		o = o[size:]
	}
	n := copy(p[optionsAt:], kept.Bytes())
	return p[:optionsAt+n]
}

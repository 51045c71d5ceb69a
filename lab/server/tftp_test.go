// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"net"
	"strings"
	"testing"
)

// hostNIC is a NIC on the machine's loopback interface.
type hostNIC struct{ unplugged }

func (hostNIC) ListenUDP(uint16) (net.PacketConn, error) {
	return net.ListenPacket("udp4", "127.0.0.1:0") // loopback
}

// serveTFTP sends the packets that answer returns for each packet, from one port.
func serveTFTP(t *testing.T, answer func(packet []byte) [][]byte) *net.UDPAddr {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0") // loopback
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, a := range answer(append([]byte(nil), buf[:n]...)) {
				_, _ = conn.WriteTo(a, from)
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr)
}

func data(block byte, size int) []byte {
	return append([]byte{0, opDATA, 0, block}, bytes.Repeat([]byte{'x'}, size)...)
}

func TestTransfer(t *testing.T) {
	for _, tc := range []struct {
		name   string
		answer func(packet []byte) [][]byte
		want   int64
		err    string
	}{
		{"two blocks", func(p []byte) [][]byte {
			if p[1] == opRRQ {
				return [][]byte{data(1, 512)}
			}
			return [][]byte{data(p[3]+1, 100)}
		}, 612, ""},
		{"a multiple of the block size", func(p []byte) [][]byte {
			if p[1] == opRRQ {
				return [][]byte{data(1, 512)}
			}
			return [][]byte{data(p[3]+1, 0)}
		}, 512, ""},
		{"repeated and unexpected blocks", func(p []byte) [][]byte {
			if p[1] == opRRQ {
				return [][]byte{{0}, data(9, 512), data(1, 512), data(1, 512)}
			}
			return [][]byte{data(1, 512), data(p[3]+1, 1), data(p[3]+1, 1)}
		}, 513, ""},
		{"not found", func([]byte) [][]byte { return [][]byte{{0, opERROR, 0, 1, 'n', 'o', 0}} }, 0, "error 1"},
		{"unrequested options", func([]byte) [][]byte { return [][]byte{{0, opOACK, 'b', 0}} }, 0, "options"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := serveTFTP(t, tc.answer)
			conn, err := (hostNIC{}).ListenUDP(0)
			must(t, err)
			defer func() { _ = conn.Close() }()
			tr := &transfer{conn: conn, to: server, packet: []byte("\x00\x01f\x00octet\x00")}
			n := tftpBlock
			for err == nil && n == tftpBlock {
				n, err = tr.next()
			}
			if tc.err == "" && (err != nil || tr.length != tc.want) || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("%d bytes, %v, want %d and %q", tr.length, err, tc.want, tc.err)
			}
		})
	}
}

// FuzzReceive shows that the client accepts no block out of order.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, opDATA, 0, 1, 'x'})
	f.Add([]byte{0, opERROR, 0, 1, 'x', 0})
	f.Add([]byte{0, opOACK})
	f.Fuzz(func(t *testing.T, packet []byte) {
		peer := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
		conn, err := (hostNIC{}).ListenUDP(0)
		must(t, err)
		defer func() { _ = conn.Close() }()
		tr := &transfer{conn: conn, to: peer, block: 4}
		size, done, _ := tr.receive(packet, peer)
		if done != (tr.block == 5) || size < 0 || done && size != len(packet)-4 {
			t.Errorf("done %v, block %d, size %d", done, tr.block, size)
		}
	})
}

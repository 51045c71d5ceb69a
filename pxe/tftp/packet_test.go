// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var unexported = cmp.AllowUnexported(readRequest{}, option{}, terms{})

func TestParseRequest(t *testing.T) {
	for _, tc := range []struct {
		name, packet string
		want         readRequest
		fails        bool
	}{
		{"plain", "\x00\x01undionly.kpxe\x00octet\x00", readRequest{name: "undionly.kpxe", mode: "octet"}, false},
		{"mode in capitals", "\x00\x01a\x00OCTET\x00", readRequest{name: "a", mode: "octet"}, false},
		// The first request of OVMF in Debian 12, to learn the size.
		{"OVMF", "\x00\x01snponly.efi\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x004\x00",
			readRequest{name: "snponly.efi", mode: "octet", options: []option{{"tsize", 0}, {"blksize", 1468}, {"windowsize", 4}}}, false},
		{"option in capitals", "\x00\x01a\x00octet\x00BlkSize\x008\x00", readRequest{name: "a", mode: "octet", options: []option{{"blksize", 8}}}, false},
		{"option without value", "\x00\x01a\x00octet\x00tsize\x00", readRequest{name: "a", mode: "octet"}, false},
		{"padded", "\x00\x01a\x00octet\x00\x00\x00\x00", readRequest{name: "a", mode: "octet"}, false},
		{"an option of others", "\x00\x01a\x00octet\x00multicast\x00\x00tsize\x000\x00", readRequest{name: "a", mode: "octet", options: []option{{"tsize", 0}}}, false},
		{"the same again and again", "\x00\x01a\x00octet\x00" + strings.Repeat("tsize\x000\x00TSIZE\x001\x00", 100),
			readRequest{name: "a", mode: "octet", options: []option{{"tsize", 0}}}, false},
		{"empty", "", readRequest{}, true},
		{"write request", "\x00\x02a\x00octet\x00", readRequest{}, true},
		{"no name", "\x00\x01\x00octet\x00", readRequest{}, true},
		{"no mode", "\x00\x01a\x00", readRequest{}, true},
		{"not ended", "\x00\x01a\x00octet", readRequest{}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := parseRequest([]byte(tc.packet))
			if failed := errors.Is(err, errMalformed); failed != tc.fails {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, got, unexported); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNegotiate(t *testing.T) {
	plain := terms{blockSize: 512, window: 1, timeout: time.Second}
	with := func(change func(*terms)) terms { c := plain; change(&c); return c }
	for _, tc := range []struct {
		name  string
		asked [][2]string
		want  terms
	}{
		{"nothing", nil, plain},
		{"unknown", [][2]string{{"multicast", ""}}, plain},
		{"all", [][2]string{{"blksize", "1024"}, {"windowsize", "4"}, {"timeout", "3"}, {"tsize", "0"}},
			terms{1024, 4, 3 * time.Second, []option{{"blksize", 1024}, {"windowsize", 4}, {"timeout", 3}, {"tsize", 5000}}}},
		{"block larger than a frame", [][2]string{{"blksize", "65464"}},
			with(func(c *terms) { c.blockSize, c.accepted = 1468, []option{{"blksize", 1468}} })},
		{"window too large", [][2]string{{"windowsize", "65535"}},
			with(func(c *terms) { c.window, c.accepted = maxWindow, []option{{"windowsize", 64}} })},
		{"window of large blocks, whatever the order", [][2]string{{"windowsize", "64"}, {"blksize", "1468"}},
			with(func(c *terms) {
				c.blockSize, c.window = 1468, 44
				c.accepted = []option{{"windowsize", 44}, {"blksize", 1468}}
			})},
		{"an option twice", [][2]string{{"blksize", "1024"}, {"tsize", "0"}, {"blksize", "16"}},
			with(func(c *terms) {
				c.blockSize, c.accepted = 1024, []option{{"blksize", 1024}, {"tsize", 5000}}
			})},
		{"first senseless, then not", [][2]string{{"blksize", "x"}, {"blksize", "16"}}, plain},
		{"senseless values", [][2]string{{"blksize", "7"}, {"windowsize", "0"}, {"timeout", "0"}, {"tsize", "-1"}, {"blksize", "x"}}, plain},
		{"a timeout that holds the slot for long", [][2]string{{"timeout", "9"}}, plain},
		{"the longest timeout", [][2]string{{"timeout", "8"}}, with(func(c *terms) { c.timeout, c.accepted = maxTimeout, []option{{"timeout", 8}} })},
	} {
		t.Run(tc.name, func(t *testing.T) {
			packet := []byte("\x00\x01f\x00octet\x00")
			for _, o := range tc.asked {
				packet = append(packet, o[0]+"\x00"+o[1]+"\x00"...)
			}
			req, err := parseRequest(packet)
			if err != nil {
				t.Fatal(err)
			}
			got := negotiate(req, 5000, 1468, time.Second)
			if diff := cmp.Diff(tc.want, got, unexported); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMaxBlock(t *testing.T) {
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for name, tc := range map[string]struct {
		mtu    int
		client netip.Addr
		want   int
	}{
		"Ethernet": {1500, v4, 1468}, "IPv6": {1500, v6, 1448}, "tunnel": {1400, v4, 1368}, "jumbo frames": {9000, v4, 8968},
		"loopback": {65536, v4, 65464}, "absurd": {68, v4, 512},
	} {
		if got := maxBlock(tc.mtu, tc.client); got != tc.want {
			t.Errorf("%s: %d bytes, want %d", name, got, tc.want)
		}
	}
}

// FuzzPackets: no packet makes a parser panic, and negotiated values stay within their bounds.
func FuzzPackets(f *testing.F) {
	f.Add([]byte("\x00\x01snponly.efi\x00octet\x00tsize\x000\x00blksize\x001468\x00windowsize\x004\x00"))
	f.Add([]byte("\x00\x04\x00\x01"))
	f.Add([]byte("\x00\x05\x00\x08User aborted\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		_, _ = parseReply(p)
		req, err := parseRequest(p)
		if err != nil {
			return
		}
		if req.name == "" || len(req.name) > maxNameLength {
			t.Errorf("name of %d bytes", len(req.name))
		}
		got := negotiate(req, 1, maxBlockSize, time.Second)
		if len(got.accepted) > 4 {
			t.Errorf("%d options accepted", len(got.accepted))
		}
		if got.blockSize < minBlockSize || got.blockSize > maxBlockSize || got.window < 1 || got.window > maxWindow ||
			got.window > 1 && got.window*(got.blockSize+headerSize) > maxBurst ||
			got.timeout < time.Second || got.timeout > maxTimeout {
			t.Errorf("negotiated %+v", got)
		}
	})
}

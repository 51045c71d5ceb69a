// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
)

var (
	agent = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 4711}
	boot  = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 8843}
	now   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
)

// written returns a header as a Forwarder writes it, modified by change.
func written(t *testing.T, change func(*proxyproto.Header)) []byte {
	t.Helper()
	header, err := newHeader(agent, boot, nil, now, sealWith(key))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(header)
	}
	raw, err := header.Format()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// accepted sends bytes to a listener and returns the result of its connection.
func accepted(t *testing.T, c ListenConfig, sent []byte, then func(*net.TCPConn)) (net.Conn, []byte, error) {
	t.Helper()
	inner := listen(t, "tcp", "127.0.0.1:0")
	c.Sealed, c.Now = sealed, func() time.Time { return now }
	agents := Listen(inner, c)
	client := dial(t, inner.Addr())
	if _, err := client.Write(sent); err != nil {
		t.Fatal(err)
	}
	then(client)
	conn, err := agents.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	data, err := io.ReadAll(conn)
	return conn, data, err
}

func closeWrite(c *net.TCPConn) { _ = c.CloseWrite() }

// The source is the agent's only with a recent header for the same addresses, sealed with the
// key. Otherwise nothing is read and the source is the peer's.
func TestHeaders(t *testing.T) {
	resealed := func(at time.Time, with []byte, source net.Addr) []byte {
		header, err := newHeader(source, boot, nil, at, sealWith(with))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := header.Format()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	tlvs := func(header *proxyproto.Header) []proxyproto.TLV {
		out, err := header.TLVs()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	set := func(change func([]proxyproto.TLV) []proxyproto.TLV) func(*proxyproto.Header) {
		return func(h *proxyproto.Header) {
			if err := h.SetTLVs(change(tlvs(h))); err != nil {
				t.Fatal(err)
			}
		}
	}
	six := &net.TCPAddr{IP: net.ParseIP("2001:db8::7"), Port: 4711}
	good := written(t, nil)
	for name, tc := range map[string]struct {
		sent []byte
		want net.Addr // nil means refused
	}{
		"as written":                {good, agent},
		"IPv6":                      {resealed(now, key, six), six},
		"IPv6 with a zone":          {resealed(now, key, &net.TCPAddr{IP: net.ParseIP("fe80::7"), Zone: "lo", Port: 1}), &net.TCPAddr{IP: net.ParseIP("fe80::7"), Port: 1}},
		"clock 9 minutes behind":    {resealed(now.Add(-9*time.Minute), key, agent), agent},
		"recorded 11 minutes ago":   {resealed(now.Add(-11*time.Minute), key, agent), nil},
		"11 minutes ahead":          {resealed(now.Add(11*time.Minute), key, agent), nil},
		"another key":               {resealed(now, []byte("another"), agent), nil},
		"no header: TLS at once":    {[]byte("\x16\x03\x01\x02\x00 a client hello"), nil},
		"nothing":                   {nil, nil},
		"no seal":                   {written(t, set(func([]proxyproto.TLV) []proxyproto.TLV { return nil })), nil},
		"two seals":                 {written(t, set(func(in []proxyproto.TLV) []proxyproto.TLV { return append(in, in...) })), nil},
		"seal of another type":      {written(t, set(func(in []proxyproto.TLV) []proxyproto.TLV { in[0].Type++; return in })), nil},
		"seal of 3 bytes":           {written(t, set(func(in []proxyproto.TLV) []proxyproto.TLV { in[0].Value = in[0].Value[:3]; return in })), nil},
		"seal's sum cut off":        {written(t, set(func(in []proxyproto.TLV) []proxyproto.TLV { in[0].Value = in[0].Value[:8]; return in })), nil},
		"another time in the seal":  {written(t, set(func(in []proxyproto.TLV) []proxyproto.TLV { in[0].Value[7]++; return in })), nil},
		"another source":            {written(t, func(h *proxyproto.Header) { h.SourceAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 8), Port: 4711} }), nil},
		"another destination":       {written(t, func(h *proxyproto.Header) { h.DestinationAddr = agent }), nil},
		"a connection of the proxy": {written(t, func(h *proxyproto.Header) { h.Command = proxyproto.LOCAL }), nil},
		"UDP":                       {bytes.Replace(good, []byte{0x21, 0x11}, []byte{0x21, 0x12}, 1), nil},
		"version 1":                 {[]byte("PROXY TCP4 192.0.2.7 192.0.2.1 4711 8843\r\n"), nil},
		"cut off in the signature":  {good[:7], nil},
		"cut off in the addresses":  {good[:20], nil},
		"cut off in the seal":       {good[:len(good)-1], nil},
		"a length that lies":        {append(append(append([]byte{}, good[:14]...), 0xff, 0xff), good[16:]...), nil},
	} {
		t.Run(name, func(t *testing.T) {
			const payload = "hello"
			sent := tc.sent
			if tc.want != nil {
				sent = append(append([]byte{}, sent...), payload...)
			}
			conn, data, err := accepted(t, ListenConfig{}, sent, closeWrite)
			if tc.want == nil {
				if err == nil || len(data) > 0 {
					t.Errorf("read %q, error %v: want a refusal", data, err)
				}
				if normalize(conn.RemoteAddr()).Addr().String() != "127.0.0.1" {
					t.Errorf("a refused connection is of %s", conn.RemoteAddr())
				}
				return
			}
			if err != nil || string(data) != payload {
				t.Fatalf("read %q, error %v", data, err)
			}
			if normalize(conn.RemoteAddr()) != normalize(tc.want) {
				t.Errorf("source = %s, want %s", conn.RemoteAddr(), tc.want)
			}
		})
	}
}

// Changing any byte of the header invalidates the seal.
func TestHeaderBytes(t *testing.T) {
	good := written(t, nil)
	for i := range good {
		t.Run(fmt.Sprintf("byte %d", i), func(t *testing.T) {
			bad := bytes.Clone(good)
			bad[i] ^= 0x01
			if _, data, err := accepted(t, ListenConfig{}, bad, closeWrite); err == nil {
				t.Errorf("taken, with %q", data)
			}
		})
	}
}

// A peer that sends its header too slowly is dropped and does not delay others.
func TestSlowHeader(t *testing.T) {
	good := written(t, nil)
	_, _, err := accepted(t, ListenConfig{HeaderTimeout: 10 * time.Millisecond}, good[:len(good)-1], func(*net.TCPConn) {})
	if err == nil {
		t.Error("a header without its end was taken")
	}
}

func TestNewHeaderRejectsOtherAddresses(t *testing.T) {
	if _, err := newHeader(&net.UnixAddr{Name: "/x", Net: "unix"}, boot, nil, now, sealWith(key)); err == nil {
		t.Error("a unix socket became a PROXY header")
	}
}

// The MAC address of the source is in the header, and the seal covers it.
func TestHardwareOf(t *testing.T) {
	mac, other := net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}
	header := func(change func([]proxyproto.TLV) []proxyproto.TLV) []byte {
		h, err := newHeader(agent, boot, mac, now, sealWith(key))
		if err != nil {
			t.Fatal(err)
		}
		tlvs, err := h.TLVs()
		if err != nil {
			t.Fatal(err)
		}
		if err := h.SetTLVs(change(tlvs)); err != nil {
			t.Fatal(err)
		}
		raw, err := h.Format()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, tc := range map[string]struct {
		sent    []byte
		want    net.HardwareAddr
		refused bool
	}{
		"as written":              {sent: header(func(in []proxyproto.TLV) []proxyproto.TLV { return in }), want: mac},
		"none":                    {sent: written(t, nil)},
		"another MAC address":     {sent: header(func(in []proxyproto.TLV) []proxyproto.TLV { in[1].Value = other; return in }), refused: true},
		"the MAC address is cut":  {sent: header(func(in []proxyproto.TLV) []proxyproto.TLV { in[1].Value = mac[:5]; return in }), refused: true},
		"the MAC address is gone": {sent: header(func(in []proxyproto.TLV) []proxyproto.TLV { return in[:1] }), refused: true},
		"two MAC addresses":       {sent: header(func(in []proxyproto.TLV) []proxyproto.TLV { return append(in, in[1]) }), refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _, err := accepted(t, ListenConfig{}, tc.sent, closeWrite)
			if (err != nil) != tc.refused {
				t.Fatalf("read: %v, want refused: %t", err, tc.refused)
			}
			if got := HardwareOf(conn); !tc.refused && got.String() != tc.want.String() {
				t.Errorf("hardware %s, want %s", got, tc.want)
			}
		})
	}
	if got := HardwareOf(dial(t, listen(t, "tcp", "127.0.0.1:0").Addr())); got != nil {
		t.Errorf("a plain connection has %s", got)
	}
}

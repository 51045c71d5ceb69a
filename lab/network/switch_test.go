// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const timeout = 30 * time.Second

func frameTo(dst, src byte, payload string) []byte {
	f := []byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5}
	if dst == 0xff {
		copy(f, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	}
	return append(f, payload...)
}

// plugProbe adds a port and a channel with its frames.
func plugProbe(t *testing.T, sw *Switch, name string) (*Port, chan string) {
	t.Helper()
	got := make(chan string, 16)
	p, err := sw.Plug(name, func(f []byte) { got <- string(f[ethernetHeader:]) })
	if err != nil {
		t.Fatal(err)
	}
	return p, got
}

func receive(t *testing.T, from <-chan string) string {
	t.Helper()
	select {
	case s := <-from:
		return s
	case <-time.After(timeout):
		t.Fatal("no frame arrived")
		return ""
	}
}

func TestSwitchLearnsAndFloods(t *testing.T) {
	sw := NewSwitch()
	defer func() { _ = sw.Close() }()
	a, gotA := plugProbe(t, sw, "a")
	b, gotB := plugProbe(t, sw, "b")
	c, gotC := plugProbe(t, sw, "c")

	a.Send(frameTo(2, 1, "unknown")) // floods, and the switch learns 1 = a
	for _, got := range []chan string{gotB, gotC} {
		if s := receive(t, got); s != "unknown" {
			t.Errorf("got %q", s)
		}
	}
	b.Send(frameTo(1, 2, "known")) // goes only to a
	if s := receive(t, gotA); s != "known" {
		t.Errorf("got %q", s)
	}
	c.Send(frameTo(0xff, 3, "all"))
	for _, got := range []chan string{gotA, gotB} {
		if s := receive(t, got); s != "all" {
			t.Errorf("got %q", s)
		}
	}
	// The queue of c is in order, so "known" is not pending.
	a.Send(frameTo(3, 1, "last"))
	if s := receive(t, gotC); s != "last" {
		t.Errorf("c got %q: a frame for another port", s)
	}
	// A device that moves to another port is learned again, and a closed port is forgotten.
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if name, ok := sw.PortOf(net.HardwareAddr{2, 0, 0, 0, 0, 1}); ok {
		t.Errorf("unplugged address still learned at %q", name)
	}
	c.Send(frameTo(9, 1, "moved"))
	if name, _ := sw.PortOf(net.HardwareAddr{2, 0, 0, 0, 0, 1}); name != "c" {
		t.Errorf("moved address learned at %q, want c", name)
	}
}

func TestSwitchDropsInvalidFrames(t *testing.T) {
	sw := NewSwitch()
	defer func() { _ = sw.Close() }()
	a, _ := plugProbe(t, sw, "a")
	a.Send(make([]byte, ethernetHeader-1))
	a.Send(make([]byte, MaxFrame+1))
	if diff := cmp.Diff(Stats{Dropped: 2}, sw.Stats()); diff != "" {
		t.Error(diff)
	}
}

func TestSlowPortDoesNotStopOthers(t *testing.T) {
	sw := NewSwitch()
	defer func() { _ = sw.Close() }()
	block := make(chan struct{})
	defer close(block)
	if _, err := sw.Plug("stuck", func([]byte) { <-block }); err != nil {
		t.Fatal(err)
	}
	a, _ := plugProbe(t, sw, "a")
	for range portQueue + 10 {
		a.Send(frameTo(0xff, 1, "x"))
	}
	if d := sw.Stats().Dropped; d < 8 || d > 10 {
		t.Errorf("%d frames dropped, want the 9 or so that did not fit", d)
	}
}

func TestUnixPortUsesQEMUFraming(t *testing.T) {
	sw := NewSwitch()
	path := filepath.Join(t.TempDir(), "nic.sock")
	if err := sw.ListenUnix("vm", path); err != nil {
		t.Fatal(err)
	}
	a, got := plugProbe(t, sw, "a")
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(timeout))
	// "hello" in two writes: framing must not depend on write boundaries.
	f := frameTo(0xff, 7, "hello")
	wire := append(binary.BigEndian.AppendUint32(nil, uint32(len(f))), f...)
	for _, part := range [][]byte{wire[:6], wire[6:]} {
		if _, err := conn.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if s := receive(t, got); s != "hello" {
		t.Errorf("got %q", s)
	}
	a.Send(frameTo(7, 1, "welcome"))
	back, err := readFrame(conn)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(frameTo(7, 1, "welcome"), back); diff != "" {
		t.Error(diff)
	}
	if err := sw.Close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("connection after Close: %v, want EOF", err)
	}
	if err := sw.ListenUnix("vm", path); !errors.Is(err, ErrClosed) {
		t.Errorf("ListenUnix after Close: %v", err)
	}
}

func TestCaptureWritesPcap(t *testing.T) {
	var out bytes.Buffer
	sw := NewSwitch()
	defer func() { _ = sw.Close() }()
	a, _ := plugProbe(t, sw, "a")
	if err := sw.Capture(&out); err != nil {
		t.Fatal(err)
	}
	a.Send(frameTo(0xff, 1, "one"))
	sw.StopCapture()
	a.Send(frameTo(0xff, 1, "two"))

	b := out.Bytes()
	if len(b) != 24+16+17 {
		t.Fatalf("capture is %d bytes long, want one header and one record of 17", len(b))
	}
	if got := hex.EncodeToString(b[:24]); got != "d4c3b2a1020004000000000000000000"+"0000010001000000" {
		t.Errorf("header %s", got)
	}
	if diff := cmp.Diff(frameTo(0xff, 1, "one"), b[40:]); diff != "" {
		t.Error(diff)
	}
}

// solicitation was sent by iPXE's BIOS driver of Debian 12 and captured by this switch. It has no
// source link-layer option.
const solicitation = "333300000002" + "525400123456" + "86dd" +
	"60000000" + "0008" + "3a" + "ff" +
	"fe80000000000000505400fffe123456" + "ff020000000000000000000000000002" +
	"8500" + "0000" + "00000000"

func TestRouterAnswersSolicitations(t *testing.T) {
	sw := NewSwitch()
	defer func() { _ = sw.Close() }()
	if err := sw.AnswerRouterSolicitations(); err != nil {
		t.Fatal(err)
	}
	frames := make(chan []byte, 1)
	p, err := sw.Plug("client", func(f []byte) { frames <- f })
	if err != nil {
		t.Fatal(err)
	}
	rs, err := hex.DecodeString(solicitation)
	if err != nil {
		t.Fatal(err)
	}
	p.Send(frameTo(0xff, 1, "no solicitation, no answer"))
	p.Send(rs)
	var ra []byte
	select {
	case ra = <-frames:
	case <-time.After(timeout):
		t.Fatal("no advertisement")
	}
	want := "333300000001" + "02696e676f74" + "86dd" +
		"60000000" + "0010" + "3a" + "ff" +
		"fe80000000000000" + "00696efffe676f74" + "ff020000000000000000000000000001" +
		"8600" + "5eeb" + "40" + "00" + "0000" + "00000000" + "00000000"
	if diff := cmp.Diff(want, hex.EncodeToString(ra)); diff != "" {
		t.Error(diff)
	}
	// The receiver's check: the sum over everything, checksum included, is 0.
	var src, dst [16]byte
	copy(src[:], ra[22:])
	copy(dst[:], ra[38:])
	if sum := icmpv6Checksum(src, dst, ra[54:]); sum != 0 {
		t.Errorf("checksum does not verify: %#04x", sum)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 2})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, err := readFrame(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := writeFrame(&out, frame); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, out.Bytes()) {
			t.Errorf("frame of %x written as %x", b, out.Bytes())
		}
	})
}

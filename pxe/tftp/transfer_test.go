// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// tape is a link whose client sends prepared packets and then is silent. It checks all packets
// that it receives.
type tape struct {
	t       *testing.T
	content []byte
	terms   terms
	replies []byte // each of replySize bytes, or the remaining ones
	sent    int
}

const tapeReply = 5

func (l *tape) send(frames []byte, size int) error {
	l.sent++
	for len(frames) > 0 {
		p := frames[:min(size, len(frames))]
		frames = frames[len(p):]
		if binary.BigEndian.Uint16(p) != opData {
			continue
		}
		number, data := binary.BigEndian.Uint16(p[2:]), p[headerSize:]
		offset := (int(number) - 1) * l.terms.blockSize
		if offset < 0 || offset > len(l.content) || !bytes.Equal(data, l.content[offset:min(offset+l.terms.blockSize, len(l.content))]) {
			l.t.Fatalf("block %d of %d bytes is wrong", number, len(data))
		}
	}
	return nil
}

func (l *tape) receive(time.Time) ([]byte, error) {
	if len(l.replies) == 0 {
		return nil, os.ErrDeadlineExceeded
	}
	n := min(tapeReply, len(l.replies))
	p := l.replies[:n]
	l.replies = l.replies[n:]
	if n == tapeReply && p[4]&1 == 1 { // or nothing comes
		return nil, os.ErrDeadlineExceeded
	}
	return p, nil
}

// FuzzTransfer: with any answers of a client every sent block is right, the number of sends is
// bounded by the answers, and the transfer ends.
func FuzzTransfer(f *testing.F) {
	ack := func(numbers ...byte) []byte {
		var b []byte
		for _, n := range numbers {
			b = append(b, 0, opAck, 0, n, 0)
		}
		return b
	}
	f.Add(uint16(100), byte(16), byte(1), ack(0, 1, 2, 3, 4, 5, 6, 7))
	f.Add(uint16(100), byte(16), byte(4), ack(0, 4, 4, 4, 2, 7, 7))
	f.Add(uint16(4096), byte(8), byte(64), ack(0, 0, 0, 64, 128, 1))
	f.Add(uint16(0), byte(8), byte(1), []byte{0, opError, 0, 8, 0})
	f.Fuzz(func(t *testing.T, size uint16, block, window byte, replies []byte) {
		content := make([]byte, size%8192)
		for i := range content {
			content[i] = byte(i * 7)
		}
		l := &tape{t: t, content: content, replies: replies}
		l.terms = terms{blockSize: max(int(block), minBlockSize), window: int(window)%maxWindow + 1, timeout: time.Second,
			accepted: []option{{"blksize", 8}}}
		var ending atomic.Bool
		tr := transfer{link: l, terms: l.terms, retries: 2, ending: &ending, now: time.Now,
			file: bytes.NewReader(content), size: int64(len(content))}
		most := 2*(len(replies)/tapeReply+1) + 8
		switch err := tr.run(); {
		case err != nil && !errors.Is(err, errGone) && !errors.Is(err, errAborted):
			t.Errorf("ended with %v", err)
		case l.sent > most:
			t.Errorf("%d sends for %d bytes of answers", l.sent, len(replies))
		}
	})
}

// pacedLink is a client that acknowledges the last block at intervals, with a simulated clock.
type pacedLink struct {
	pace  time.Duration
	clock time.Time
	last  uint16
	// stops is the last block that the client acknowledges.
	stops uint16
}

func (l *pacedLink) send(frames []byte, size int) error {
	for ; len(frames) > 0; frames = frames[min(size, len(frames)):] {
		l.last = binary.BigEndian.Uint16(frames[2:])
	}
	return nil
}

func (l *pacedLink) receive(deadline time.Time) ([]byte, error) {
	if l.last > l.stops || l.clock.Add(l.pace).After(deadline) {
		l.clock = deadline
		return nil, os.ErrDeadlineExceeded
	}
	l.clock = l.clock.Add(l.pace)
	return binary.BigEndian.AppendUint16([]byte{0, opAck}, l.last), nil
}

// A transfer with at least the minimal rate may take any time. A slower transfer, and one without
// an answer, ends.
func TestSlowAndSilentClientsLoseTheirSlot(t *testing.T) {
	const size = 64 << 10 // 129 blocks of 512 bytes; 94 s at the minimal rate
	for name, c := range map[string]struct {
		pace    time.Duration
		stops   uint16
		want    error
		atLeast time.Duration
		atMost  time.Duration
	}{
		"fast":                      {pace: time.Millisecond, stops: 1000, atMost: time.Second},
		"just fast enough":          {pace: 700 * time.Millisecond, stops: 1000, atLeast: 90 * time.Second, atMost: 94 * time.Second},
		"too slow":                  {pace: 900 * time.Millisecond, stops: 1000, want: errSlow, atLeast: 94 * time.Second, atMost: 94 * time.Second},
		"never answers":             {stops: 0, want: errGone, atLeast: firstAnswer, atMost: firstAnswer},
		"stops after some blocks":   {pace: time.Millisecond, stops: 9, want: errGone, atLeast: 30 * time.Second, atMost: 32 * time.Second},
		"first answer is too late":  {pace: firstAnswer + 1, stops: 1000, want: errGone, atLeast: firstAnswer, atMost: firstAnswer},
		"each block one retry late": {pace: 1500 * time.Millisecond, stops: 1000, want: errSlow, atLeast: 94 * time.Second, atMost: 94 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1_000_000, 0)
			l := &pacedLink{pace: c.pace, stops: c.stops, clock: begin}
			var ending atomic.Bool
			tr := transfer{link: l, retries: 5, ending: &ending, now: func() time.Time { return l.clock },
				terms: terms{blockSize: 512, window: 1, timeout: time.Second},
				file:  bytes.NewReader(make([]byte, size)), size: size}
			err := tr.run()
			if !errors.Is(err, c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			if took := l.clock.Sub(begin); took < c.atLeast || took > c.atMost {
				t.Errorf("took %s, want %s to %s", took, c.atLeast, c.atMost)
			}
		})
	}
}

// Without segmentation by the kernel, as on NICs without checksum offload, the same packets are
// sent one by one.
func TestWindowsWithoutSegments(t *testing.T) {
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	server, err := net.Dial("udp4", client.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	s := &ownSocket{Conn: server}
	for name, noSegments := range map[string]bool{"in one call": false, "one by one": true} {
		s.noSegments = noSegments
		if err := s.send([]byte("0123456789ab-cd"), 4); err != nil {
			t.Fatal(err)
		}
		_ = client.SetReadDeadline(time.Now().Add(30 * time.Second))
		var got []string
		buf := make([]byte, 100)
		for range 4 {
			n, err := client.Read(buf)
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			got = append(got, string(buf[:n]))
		}
		if want := "0123 4567 89ab -cd"; strings.Join(got, " ") != want || s.noSegments != noSegments {
			t.Errorf("%s: got %q, one by one %t", name, got, s.noSegments)
		}
	}
}

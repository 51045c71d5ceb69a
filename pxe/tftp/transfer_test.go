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
	"sync/atomic"
	"testing"
	"time"
)

// tape is a link whose client says what was written down before, and then is
// silent for ever. It checks all that is sent to it.
type tape struct {
	t       *testing.T
	content []byte
	terms   terms
	replies []byte // each of replySize bytes, or what is left
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

func (*tape) close() {}

type bytesFile struct{ *bytes.Reader }

func (bytesFile) Close() error { return nil }

// FuzzTransfer: whatever a client answers, every block that is sent is right, the
// number of sends is bounded by what came, and the transfer ends.
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
			accepted: []option{{"blksize", "8"}}}
		var ending, answered atomic.Bool
		var acknowledged atomic.Int64
		tr := transfer{link: l, terms: l.terms, retries: 2, ending: &ending, answered: &answered, acknowledged: &acknowledged,
			file: newReader(bytesFile{bytes.NewReader(content)}, l.terms.window*l.terms.blockSize)}
		most := 2*(len(replies)/tapeReply+1) + 8
		switch err := tr.run(); {
		case err != nil && !errors.Is(err, errGone) && !errors.Is(err, errAborted):
			t.Errorf("ended with %v", err)
		case l.sent > most:
			t.Errorf("%d sends for %d bytes of answers", l.sent, len(replies))
		case acknowledged.Load() != tr.acked*int64(l.terms.blockSize):
			t.Errorf("%d bytes of %d blocks are acknowledged", acknowledged.Load(), tr.acked)
		}
	})
}

// TestReaderReadsAhead: each byte is read from the file once, in large pieces,
// before it is asked for.
func TestReaderReadsAhead(t *testing.T) {
	f := &countingFile{bytesFile: bytesFile{bytes.NewReader(make([]byte, 200_000))}}
	r := newReader(f, 512)
	buf := make([]byte, 512)
	for offset := int64(0); offset < r.size; offset += 512 {
		before := f.reads
		n := min(512, r.size-offset)
		if err := r.copyAt(buf[:n], offset); err != nil {
			t.Fatal(err)
		}
		if offset > 0 && f.reads != before {
			t.Fatalf("the block at %d was waited for", offset)
		}
		r.ahead(offset+n, 512)
	}
	if f.reads != 7 || f.bytes != 200_000 {
		t.Errorf("%d reads of %d bytes", f.reads, f.bytes)
	}
}

type countingFile struct {
	bytesFile
	reads, bytes int
}

func (f *countingFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	f.bytes += len(p)
	return f.bytesFile.ReadAt(p, off)
}

// TestWindowsWithoutSegments: where the kernel takes no window in one call, as
// over cards without checksums, the same packets go out one by one.
func TestWindowsWithoutSegments(t *testing.T) {
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	s := newOwnSocket(server, client.LocalAddr().(*net.UDPAddr).AddrPort())
	defer s.close()
	for name, segment := range map[string][]byte{"in one call": nil, "one by one": {}} {
		s.segment = segment
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
		if want := "0123 4567 89ab -cd"; join(got) != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func join(s []string) string {
	var b bytes.Buffer
	for i, e := range s {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e)
	}
	return b.String()
}

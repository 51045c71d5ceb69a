// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// narrow is a connection that accepts some bytes at intervals, up to a total. Like the kernel's,
// its writes return the sent bytes at their deadline.
type narrow struct {
	net.Conn
	every    time.Duration
	each     int
	most     int
	deadline time.Time
	next     time.Time // of accepting bytes
	got      []byte
	// copies simulates a file without sendfile: net.TCPConn reads it before it writes.
	copies bool
}

func (c *narrow) SetWriteDeadline(at time.Time) error {
	c.deadline = at
	return nil
}

func (c *narrow) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if c.next.After(c.deadline) || len(c.got) == c.most {
			time.Sleep(time.Until(c.deadline))
			return n, &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}
		}
		time.Sleep(time.Until(c.next))
		c.next = time.Now().Add(c.every)
		took := min(c.each, len(p)-n, c.most-len(c.got))
		c.got = append(c.got, p[n:n+took]...)
		n += took
	}
	return n, nil
}

// ReadFrom leaves the file offset after the sent bytes, or with copies after the read bytes.
func (c *narrow) ReadFrom(src io.Reader) (int64, error) {
	part := src.(*io.LimitedReader)
	file, ok := part.R.(*os.File)
	if !ok || c.copies {
		return io.Copy(struct{ io.Writer }{c}, part)
	}
	p := make([]byte, part.N)
	read, err := io.ReadFull(file, p)
	if err != nil {
		return 0, err
	}
	n, err := c.Write(p)
	part.N -= int64(n)
	_, _ = file.Seek(int64(n-read), io.SeekCurrent)
	return int64(n), err
}

func (*narrow) CloseWrite() error { return nil }

// numbered returns content without repetitions.
func numbered(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// ways are the ways of sending.
var ways = map[string]struct {
	copies bool
	send   func(t *testing.T, c *limitedTCP, content []byte) (int64, error)
}{
	"by the kernel":                {send: sendFile},
	"a file that it does not send": {copies: true, send: sendFile},
	"what is no file": {send: func(_ *testing.T, c *limitedTCP, content []byte) (int64, error) {
		return c.ReadFrom(&io.LimitedReader{R: struct{ io.Reader }{bytes.NewReader(content)}, N: int64(len(content))})
	}},
	"by ourselves": {send: func(_ *testing.T, c *limitedTCP, content []byte) (int64, error) {
		n, err := c.Write(content)
		return int64(n), err
	}},
}

func sendFile(t *testing.T, c *limitedTCP, content []byte) (int64, error) {
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, content, 0o600))
	src, err := os.Open(path)
	must(t, err)
	defer func() { _ = src.Close() }()
	return c.ReadFrom(&io.LimitedReader{R: src, N: int64(len(content))})
}

// Progress counts, not the rate: many clients on one link each get little. The received content
// is complete and has no duplicates.
func TestClientWithProgressIsNotCutOff(t *testing.T) {
	content := numbered(pieceSize + 12_345)
	for way, w := range ways {
		for name, c := range map[string]struct {
			every time.Duration
			each  int
			most  int // of the content
			ends  bool
		}{
			"a little each second":          {every: time.Second, each: 3_000, most: len(content)},
			"more, but only every 59 s":     {every: 59 * time.Second, each: 100_000, most: len(content)},
			"nothing":                       {every: time.Second, each: 1, ends: true},
			"nothing any more, in mid-file": {every: time.Second, each: 100_000, most: 345_678, ends: true},
			"something every two minutes":   {every: 2 * time.Minute, each: 100_000, most: len(content), ends: true},
		} {
			t.Run(way+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client := &narrow{every: c.every, each: c.each, most: c.most, next: time.Now(), copies: w.copies}
					n, err := w.send(t, &limitedTCP{limitedConn: limitedConn{Conn: client, stall: time.Minute}, tcp: client}, content)
					switch {
					case n != int64(len(client.got)) || !bytes.Equal(client.got, content[:n]):
						t.Errorf("sent %d bytes, and what came are %d others", n, len(client.got))
					case c.ends && (!errors.Is(err, os.ErrDeadlineExceeded) || slices.Equal(client.got, content)):
						t.Errorf("sent %d bytes to a stalled client: %v", n, err)
					case !c.ends && (err != nil || n != int64(len(content))):
						t.Errorf("sent %d bytes of %d: %v", n, len(content), err)
					}
				})
			})
		}
	}
}

// A stalled client is cut off shortly after the stall time, counted from its last progress.
func TestStallTimeIsKept(t *testing.T) {
	for way, w := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &narrow{every: time.Second, each: 1_000, most: 100_000, next: time.Now(), copies: w.copies}
				began := time.Now()
				_, err := w.send(t, &limitedTCP{limitedConn: limitedConn{Conn: client, stall: time.Minute}, tcp: client}, numbered(pieceSize))
				const took = 100 * time.Second
				if still := time.Since(began) - took; err == nil || still < 58*time.Second || still > 90*time.Second {
					t.Errorf("cut off after %s: %v", still, err)
				}
			})
		})
	}
}

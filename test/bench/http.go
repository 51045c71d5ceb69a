// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// HTTPLoad is a number of clients that read one path, again and again, each over a
// connection of its own.
type HTTPLoad struct {
	// Server is host:port.
	Server, Path string
	Clients      int
	// Each is how many times each client reads.
	Each int
}

// dialTimeout and readSize are those of each client.
const (
	dialTimeout = 10 * time.Second
	readSize    = 256 << 10
)

// Run reads, and fails if one of the answers is not whole.
func (l HTTPLoad) Run() (Transferred, error) {
	moved, errs := make([]int64, l.Clients), make([]error, l.Clients)
	var wg sync.WaitGroup
	start := time.Now()
	for i := range l.Clients {
		wg.Go(func() { moved[i], errs[i] = l.read() })
	}
	wg.Wait()
	total := Transferred{Took: time.Since(start)}
	for _, n := range moved {
		total.Bytes += n
	}
	return total, errors.Join(errs...)
}

func (l HTTPLoad) read() (int64, error) {
	c, err := net.DialTimeout("tcp4", l.Server, dialTimeout)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	r := bufio.NewReaderSize(c, 4<<10)
	buf := make([]byte, readSize)
	var total int64
	for range l.Each {
		if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", l.Path, l.Server); err != nil {
			return total, err
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return total, err
		}
		if resp.StatusCode != http.StatusOK || resp.ContentLength <= 0 {
			return total, fmt.Errorf("%s: %s, %d bytes", l.Path, resp.Status, resp.ContentLength)
		}
		n, err := drain(r, c, buf, resp.ContentLength)
		total += n
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// drain reads n bytes: what has been read with the head, and the rest in large
// pieces.
func drain(r *bufio.Reader, c net.Conn, buf []byte, n int64) (int64, error) {
	got, err := r.Discard(int(min(int64(r.Buffered()), n)))
	total := int64(got)
	for total < n && err == nil {
		var m int
		m, err = c.Read(buf[:min(int64(len(buf)), n-total)])
		total += int64(m)
	}
	if total < n && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	if total == n {
		err = nil
	}
	return total, err
}

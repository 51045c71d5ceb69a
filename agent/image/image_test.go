// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agent/image"
)

const mib = 1 << 20

// reserved is the range that the tests must not write.
var reserved = image.Range{Off: mib - 4096, Len: 4096}

// rawImage returns content with zeroes in the reserved range, in runs longer and shorter than
// a chunk, and at the end.
func rawImage(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	clear(b[reserved.Off:min(int64(size), reserved.Off+reserved.Len)])
	for _, z := range []image.Range{{2 * mib, 300 << 10}, {3 * mib, 5 * mib}, {8*mib + 77, 70 << 10}} {
		if int(z.Off+z.Len) < size {
			clear(b[z.Off : z.Off+z.Len])
		}
	}
	if size > 2*mib {
		clear(b[size-mib/2:])
	}
	return b
}

// oldDisk returns a file full of old content.
func oldDisk(t testing.TB, size int64) (block.Device, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(path, bytes.Repeat([]byte{0xa5}, int(size)), 0o600); err != nil {
		t.Fatal(err)
	}
	dev, err := block.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dev.Close() })
	return unsynced{dev}, path
}

// unsynced skips the sync of the real disk.
type unsynced struct{ block.Device }

func (unsynced) Sync() error { return nil }

// request returns a Request that does not sleep.
func request(url string) image.Request {
	return image.Request{
		Client: &http.Client{Transport: &http.Transport{}}, URL: url,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

// write opens and writes an image.
func write(ctx context.Context, dev block.Device, src *agenttest.Images, url string, opts image.Options) (image.Result, error) {
	img, err := image.Open(ctx, request(url), image.Format{Checksum: src.Checksum()})
	if err != nil {
		return image.Result{}, err
	}
	defer img.Close()
	opts.Reserved = reserved
	return img.Write(ctx, dev, opts)
}

// wanted is the expected content of a disk with old content after the write.
func wanted(raw []byte, size int64) []byte {
	want := bytes.Repeat([]byte{0xa5}, int(size))
	clear(want[:mib])
	clear(want[size-mib:])
	copy(want, raw)
	copy(want[reserved.Off:], bytes.Repeat([]byte{0xa5}, int(reserved.Len)))
	return want
}

func compare(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for off := 0; off < len(want); off += 4096 {
		if !bytes.Equal(got[off:off+4096], want[off:off+4096]) {
			t.Fatalf("disk differs at %d", off)
		}
	}
}

func TestWrite(t *testing.T) {
	const size = 12 * mib
	raw := rawImage(9*mib + 512)
	for _, compression := range []string{"none", "gzip", "xz", "zstd", "pzstd"} {
		content := compress(t, compression, raw)
		for _, source := range []struct {
			name   string
			server func() *agenttest.Images
		}{
			{"complete", func() *agenttest.Images { return &agenttest.Images{} }},
			{"while it is being fetched", func() *agenttest.Images { return &agenttest.Images{Busy: 3} }},
			{"interrupted twice", func() *agenttest.Images { return &agenttest.Images{CutAt: []int{10_000, 5_000}} }},
			{"interrupted, ranges ignored", func() *agenttest.Images { return &agenttest.Images{CutAt: []int{10_000}, NoRange: true} }},
			{"size unknown", func() *agenttest.Images { return &agenttest.Images{NoLength: true} }},
		} {
			t.Run(compression+" "+source.name, func(t *testing.T) {
				server := source.server()
				server.Content = content
				dev, path := oldDisk(t, size)
				var last int64
				result, err := write(t.Context(), dev, server, server.Start(t), image.Options{
					OnWrite: func(n int64, percent int) {
						if n < last || percent < 0 || percent > 100 {
							t.Errorf("progress from %d to %d bytes, %d %%", last, n, percent)
						}
						last = n
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				want := image.Result{Bytes: int64(len(raw)), SourceBytes: int64(len(server.Content))}
				if diff := cmp.Diff(want, result); diff != "" {
					t.Error(diff)
				}
				if last != result.Bytes {
					t.Errorf("last progress at %d of %d bytes", last, result.Bytes)
				}
				compare(t, path, wanted(raw, size))
			})
		}
	}
}

func TestResumeRequestsTheRest(t *testing.T) {
	server := &agenttest.Images{Content: rawImage(3 * mib), CutAt: []int{2 * mib}}
	dev, _ := oldDisk(t, 8*mib)
	if _, err := write(t.Context(), dev, server, server.Start(t), image.Options{}); err != nil {
		t.Fatal(err)
	}
	ranges := server.Ranges()
	var from int64
	if len(ranges) != 2 || ranges[0] != "" {
		t.Fatalf("ranges %q", ranges)
	}
	if _, err := fmt.Sscanf(ranges[1], "bytes=%d-", &from); err != nil || from <= mib || from > 2*mib {
		t.Errorf("resumed with %q, want what was not read yet", ranges[1])
	}
}

// damaged is a device that returns wrong data or fails.
type damaged struct {
	block.Device
	mu      sync.Mutex
	failAt  int64
	lieAt   int64
	noZero  bool
	written []image.Range
}

func (d *damaged) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written = append(d.written, image.Range{Off: off, Len: int64(len(p))})
	end := off + int64(len(p))
	if d.failAt > 0 && off <= d.failAt && d.failAt < end {
		return 0, errors.New("medium error")
	}
	if d.lieAt > 0 && off <= d.lieAt && d.lieAt < end {
		p = bytes.Clone(p)
		p[d.lieAt-off] ^= 0xff
	}
	return d.Device.WriteAt(p, off)
}

func (d *damaged) Zero(off, n int64) error {
	if d.noZero {
		return block.ErrNotSupported
	}
	return d.Device.Zero(off, n)
}

func TestZeroesAreWrittenWithoutDeviceSupport(t *testing.T) {
	raw := rawImage(10 * mib)
	server := &agenttest.Images{Content: raw}
	inner, path := oldDisk(t, 12*mib)
	if _, err := write(t.Context(), &damaged{Device: inner, noZero: true}, server, server.Start(t), image.Options{}); err != nil {
		t.Fatal(err)
	}
	compare(t, path, wanted(raw, 12*mib))
}

func TestRefusals(t *testing.T) {
	raw := rawImage(12 * mib)
	touched := bytes.Clone(raw)
	touched[reserved.Off+100] = 1
	otherFile := func(content []byte) func(*testing.T, *agenttest.Images) string {
		return func(t *testing.T, s *agenttest.Images) string {
			other := &agenttest.Images{Content: content}
			return other.Start(t)
		}
	}
	flipped := compress(t, "zstd", raw)
	flipped[len(flipped)/2] ^= 1
	for _, tc := range []struct {
		name    string
		content []byte
		url     func(*testing.T, *agenttest.Images) string
		lieAt   int64
		size    int64
		want    error
	}{
		{name: "another file of the same size", content: raw, url: otherFile(bytes.Repeat([]byte{1}, len(raw))), want: image.ErrChecksum},
		{name: "a damaged file: the checksum takes precedence", content: compress(t, "zstd", raw), url: otherFile(flipped), want: image.ErrChecksum},
		{name: "a truncated file", content: compress(t, "gzip", raw), url: otherFile(compress(t, "gzip", raw)[:5000]), want: image.ErrChecksum},
		{name: "the ordered file is damaged", content: flipped, want: image.ErrFormat},
		{name: "the ordered file is truncated", content: compress(t, "zstd", raw)[:20000], want: image.ErrFormat},
		{name: "content at the marker", content: compress(t, "zstd", touched), want: image.ErrReserved},
		{name: "larger than the disk, known in advance", content: raw, size: 6 * mib, want: image.ErrTooLarge},
		{name: "larger than the disk, unknown in advance", content: compress(t, "gzip", raw), size: 6 * mib, want: image.ErrTooLarge},
		{name: "missing", content: raw, url: func(t *testing.T, s *agenttest.Images) string { s.Status = 404; return s.Start(t) }, want: image.ErrUnavailable},
		{name: "a disk with wrong data", content: raw, lieAt: 1*mib + 5, want: image.ErrReadBack},
		{name: "a disk with wrong data at its start", content: raw, lieAt: 5, want: image.ErrReadBack},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := &agenttest.Images{Content: tc.content}
			var url string
			if tc.url != nil {
				url = tc.url(t, server)
			} else {
				url = server.Start(t)
			}
			size := int64(14 * mib)
			if tc.size != 0 {
				size = tc.size
			}
			inner, path := oldDisk(t, size)
			dev := &damaged{Device: inner, lieAt: tc.lieAt}
			_, err := write(t.Context(), dev, server, url, image.Options{})
			if !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if tc.lieAt == 5 {
				return
			}
			notBootable(t, path, raw)
		})
	}
}

// notBootable checks that the disk's first sector is old or empty, but not the image's.
func notBootable(t *testing.T, path string, raw []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := bytes.Repeat([]byte{0xa5}, 512)
	if first := got[:512]; !bytes.Equal(first, old) && !block.IsZero(first) || bytes.Equal(first, raw[:512]) {
		t.Error("an image that was refused can be booted")
	}
}

func TestTooLargeImageIsNotWritten(t *testing.T) {
	for _, compression := range []string{"none", "zstd with its size"} {
		t.Run(compression, func(t *testing.T) {
			content := rawImage(12 * mib)
			if compression != "none" {
				enc, err := zstd.NewWriter(nil)
				if err != nil {
					t.Fatal(err)
				}
				content = enc.EncodeAll(content, nil)
			}
			server := &agenttest.Images{Content: content}
			inner, _ := oldDisk(t, 8*mib)
			dev := &damaged{Device: inner}
			_, err := write(t.Context(), dev, server, server.Start(t), image.Options{})
			if !errors.Is(err, image.ErrTooLarge) || len(dev.written) != 0 {
				t.Errorf("error %v after %d writes", err, len(dev.written))
			}
		})
	}
}

func TestWriteErrorAndCancelStopTheWrite(t *testing.T) {
	raw := rawImage(10 * mib)
	t.Run("medium error", func(t *testing.T) {
		server := &agenttest.Images{Content: raw}
		inner, path := oldDisk(t, 12*mib)
		_, err := write(t.Context(), &damaged{Device: inner, failAt: 9 * mib}, server, server.Start(t), image.Options{})
		if err == nil {
			t.Fatal("no error")
		}
		notBootable(t, path, raw)
	})
	t.Run("cancelled", func(t *testing.T) {
		server := &agenttest.Images{Content: raw}
		dev, path := oldDisk(t, 12*mib)
		canceled := errors.New("canceled")
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := write(ctx, dev, server, server.Start(t), image.Options{
			OnWrite: func(n int64, _ int) {
				if n >= 4*mib {
					cancel(canceled)
				}
			},
		})
		if !errors.Is(err, canceled) {
			t.Fatalf("error %v", err)
		}
		notBootable(t, path, raw)
	})
}

// counted counts what was written.
type counted struct {
	block.Device
	done int64
}

func (c *counted) WriteAt(p []byte, off int64) (int, error) {
	c.done += int64(len(p))
	return c.Device.WriteAt(p, off)
}

func (c *counted) Zero(off, n int64) error {
	c.done += n
	return c.Device.Zero(off, n)
}

// Zeroes count when they are sent to the disk, which may take hours and is reported
// continuously (I13).
func TestZeroesAreReportedWhenWritten(t *testing.T) {
	raw := rawImage(150 * mib)
	clear(raw[10*mib:])
	server := &agenttest.Images{Content: compress(t, "zstd", raw)}
	inner, _ := oldDisk(t, 160*mib)
	dev := &counted{Device: inner}
	var reported []int64
	const ends = 4 * mib // the cleared end and the head held back
	_, err := write(t.Context(), dev, server, server.Start(t), image.Options{OnWrite: func(n int64, _ int) {
		if n > dev.done+ends {
			t.Errorf("reported %d MiB, done %d MiB", n/mib, dev.done/mib)
		}
		if len(reported) == 0 || reported[len(reported)-1] != n {
			reported = append(reported, n)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for _, n := range reported {
		if n > 20*mib {
			late++
		}
	}
	if late < 3 || reported[len(reported)-1] != int64(len(raw)) {
		t.Errorf("reported %v", reported)
	}
}

func TestStalledConnectionIsResumed(t *testing.T) {
	content := rawImage(3 * mib)
	good := &agenttest.Images{Content: content}
	release := make(chan struct{})
	first := true
	mux := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first {
			good.ServeHTTP(w, r)
			return
		}
		first = false
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:mib])
		_ = http.NewResponseController(w).Flush()
		select { // silent until the client closes the connection
		case <-r.Context().Done():
		case <-release:
		}
	})
	url := serve(t, mux)
	t.Cleanup(func() { close(release) })
	req := request(url)
	req.Stall = 50 * time.Millisecond
	img, err := image.Open(t.Context(), req, image.Format{Checksum: good.Checksum()})
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	dev, path := oldDisk(t, 8*mib)
	if _, err := img.Write(t.Context(), dev, image.Options{Reserved: reserved}); err != nil {
		t.Fatal(err)
	}
	compare(t, path, wanted(content, 8*mib))
}

func TestOpenRefusesBadFormats(t *testing.T) {
	server := &agenttest.Images{Content: rawImage(mib)}
	url := server.Start(t)
	for _, tc := range []struct {
		name   string
		format image.Format
		want   error
	}{
		{"no checksum", image.Format{}, image.ErrChecksum},
		{"md5", image.Format{Checksum: "md5:d41d8cd98f00b204e9800998ecf8427e"}, image.ErrChecksum},
		{"too short", image.Format{Checksum: "sha256:00ff"}, image.ErrChecksum},
		{"not hexadecimal", image.Format{Checksum: "sha256:" + string(bytes.Repeat([]byte("z"), 64))}, image.ErrChecksum},
		{"unknown compression", image.Format{Checksum: server.Checksum(), Compression: "rar"}, image.ErrFormat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := image.Open(t.Context(), request(url), tc.format); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

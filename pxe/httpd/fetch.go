// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ingot-metal/ingot/pxe/oci"
)

var (
	errChecksum = errors.New("checksum does not match")
	errStalled  = errors.New("no data received for too long")
	errTooLarge = errors.New("image is larger than the cache")
)

const copySize = 256 << 10

// checksumOf returns the checksum for the hex digest in a URL. The length of the digest
// determines the algorithm.
func checksumOf(digest string) (string, error) {
	if strings.Trim(digest, "0123456789abcdef") != "" {
		return "", fmt.Errorf("digest %q is not lower-case hex", digest)
	}
	switch len(digest) {
	case 2 * sha256.Size:
		return "sha256:" + digest, nil
	case 2 * sha512.Size:
		return "sha512:" + digest, nil
	}
	return "", fmt.Errorf("digest of %d characters is neither SHA-256 nor SHA-512", len(digest))
}

func checksumOfFile(name string) (string, bool) {
	_, digest, ok := strings.Cut(name, "-")
	if !ok {
		return "", false
	}
	checksum, err := checksumOf(digest)
	return checksum, err == nil && strings.Replace(checksum, ":", "-", 1) == name
}

func newHash(checksum string) (hash.Hash, error) {
	switch algorithm, _, _ := strings.Cut(checksum, ":"); algorithm {
	case "sha256":
		return sha256.New(), nil
	case "sha512":
		return sha512.New(), nil
	}
	return nil, fmt.Errorf("checksum %q is neither sha256 nor sha512", checksum)
}

func verify(h hash.Hash, checksum string) error {
	_, want, _ := strings.Cut(checksum, ":")
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%w: want %s, got %s", errChecksum, want, got)
	}
	return nil
}

// verifyFile verifies the checksum of a file. It returns the identity that the file had before
// it was read.
func verifyFile(ctx context.Context, path, checksum string) (fileIdentity, error) {
	h, err := newHash(checksum)
	if err != nil {
		return fileIdentity{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return fileIdentity{}, fmt.Errorf("verify image: %w", err)
	}
	defer func() { _ = f.Close() }()
	identity, err := identityOf(f)
	if err != nil {
		return fileIdentity{}, err
	}
	if _, err := io.CopyBuffer(h, cancellable{ctx, f}, make([]byte, copySize)); err != nil {
		return fileIdentity{}, fmt.Errorf("verify image: %w", err)
	}
	return identity, verify(h, checksum)
}

// cancellable is a reader that fails when its context ends.
type cancellable struct {
	ctx context.Context
	io.Reader
}

func (c cancellable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.Reader.Read(p)
}

// fetch downloads an image into a temporary file, verifies and syncs it, and renames it. It
// adds received bytes to arrived.
func (c *ImageCache) fetch(ctx context.Context, checksum string, from string, arrived *atomic.Int64) (identity fileIdentity, err error) {
	tmp, err := c.create(c.cfg.Dir, tempPattern)
	if err != nil {
		return identity, fmt.Errorf("make image file: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	c.images[checksum].cancelFetch = cancel // queued images are never removed
	c.mu.Unlock()
	w := &reservingWriter{ctx: ctx, cache: c, checksum: checksum, Writer: tmp}
	defer func() { c.endReservation(checksum, identity.Size) }()
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name()) // fails after the rename
	}()
	if err := c.download(ctx, cancel, from, w, arrived); err != nil {
		return identity, err
	}
	if err := tmp.Sync(); err != nil {
		return identity, fmt.Errorf("sync image file: %w", err)
	}
	if err := os.Rename(tmp.Name(), c.path(checksum)); err != nil {
		return identity, fmt.Errorf("name image file: %w", err)
	}
	return identityOf(tmp) // after the rename, which changes the ctime
}

// download copies an image to w and verifies it. Errors do not contain the URL, which may
// contain a signature.
func (c *ImageCache) download(ctx context.Context, cancelFetch context.CancelCauseFunc, from string, w *reservingWriter, arrived *atomic.Int64) error {
	h, err := newHash(w.checksum)
	if err != nil {
		return err
	}
	go c.monitorFetch(ctx, w.checksum, from, arrived, cancelFetch)
	watchdog := time.AfterFunc(c.cfg.Stall, func() { cancelFetch(errStalled) })
	defer watchdog.Stop()

	body, err := newResuming(ctx, c.cfg.ResumePause, func(ctx context.Context, header http.Header) (*http.Response, error) {
		return c.open(ctx, from, header)
	})
	if err != nil {
		return causeOf(ctx, err)
	}
	defer func() { _ = body.Close() }()
	// Do not start a fetch that cannot fit. Space is only reserved as data arrives, because
	// the source may lie about the length.
	if size := body.Length(); size > 0 {
		if err := c.canReserve(w.checksum, size); err != nil {
			return err
		}
	}
	var once sync.Once
	src := progressReader{Reader: body, progress: func(n int) {
		arrived.Add(int64(n))
		watchdog.Reset(c.cfg.Stall)
		once.Do(func() { c.markReceiving(w.checksum) })
	}}
	if n, err := io.CopyBuffer(io.MultiWriter(w, h), src, make([]byte, copySize)); err != nil {
		return fmt.Errorf("read image after %d bytes: %w", n, causeOf(ctx, err))
	}
	return verify(h, w.checksum)
}

// open requests the image, or the range in header.
func (c *ImageCache) open(ctx context.Context, from string, header http.Header) (*http.Response, error) {
	u, err := url.Parse(from)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != oci.Scheme) {
		return nil, errors.New("the image URL is not http, https or oci")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("the image URL is malformed")
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	resp, err := c.cfg.Client.Do(req)
	if err != nil {
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err // without the URL
		}
		return nil, fmt.Errorf("fetch image from %s: %w", u.Host, err)
	}
	if resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusPartialContent || header == nil) {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("fetch image from %s: status %d", u.Host, resp.StatusCode)
	}
	return resp, nil
}

// causeOf replaces "context canceled" with the cause of the cancellation.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrCacheFull) {
		return cause
	}
	return err
}

type progressReader struct {
	io.Reader
	progress func(n int)
}

func (r progressReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.progress(n)
	}
	return n, err
}

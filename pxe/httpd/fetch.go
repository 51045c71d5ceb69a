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
	errStalled  = errors.New("no data came for too long")
	errTooLarge = errors.New("image is larger than the cache")
)

// copySize is how much of an image is in memory at once, in bytes.
const copySize = 256 << 10

// checksumOf turns the hex digest of a URL into a checksum: its length tells
// which algorithm it is.
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

// verify compares a finished hash with a checksum.
func verify(h hash.Hash, checksum string) error {
	_, want, _ := strings.Cut(checksum, ":")
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		return fmt.Errorf("%w: want %s, got %s", errChecksum, want, got)
	}
	return nil
}

// verifyFile reads a whole file and returns what it is known by, as it was before
// the reading began, if its checksum is right.
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

// cancellable is a reader that ends with its context.
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

// fetch downloads an image into a temporary file, verifies it, syncs it, and
// only then gives it its name. arrived counts the bytes that come.
func (c *ImageCache) fetch(ctx context.Context, checksum string, from string, arrived *atomic.Int64) (identity fileIdentity, err error) {
	tmp, err := c.create(c.cfg.Dir, tempPattern)
	if err != nil {
		return identity, fmt.Errorf("make image file: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.begin(checksum, cancel)
	w := &roomWriter{ctx: ctx, cache: c, checksum: checksum, Writer: tmp}
	defer func() { c.settle(checksum, identity.Size) }()
	defer func() {
		_ = tmp.Close()
		_ = os.Remove(tmp.Name()) // fails after the rename, as it should
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
	return identityOf(tmp) // after the rename, which changes it
}

// download copies an image from a place to w and verifies it. Errors do not contain the
// URL, which may carry a signature.
func (c *ImageCache) download(ctx context.Context, callOff context.CancelCauseFunc, from string, w *roomWriter, arrived *atomic.Int64) error {
	h, err := newHash(w.checksum)
	if err != nil {
		return err
	}
	go c.watch(ctx, w.checksum, from, arrived, callOff)
	watchdog := time.AfterFunc(c.cfg.Stall, func() { callOff(errStalled) })
	defer watchdog.Stop()

	body, err := newResuming(ctx, c.cfg.ResumePause, func(ctx context.Context, header http.Header) (*http.Response, error) {
		return c.open(ctx, from, header)
	})
	if err != nil {
		return causeOf(ctx, err)
	}
	defer func() { _ = body.Close() }()
	// What does not fit is not begun. The room itself is taken as bytes come: a length is only
	// what a source says.
	if size := body.Length(); size > 0 {
		if err := c.fits(w.checksum, size); err != nil {
			return err
		}
	}
	var once sync.Once
	src := progressReader{Reader: body, progress: func(n int) {
		arrived.Add(int64(n))
		watchdog.Reset(c.cfg.Stall)
		once.Do(func() { c.comes(w.checksum) })
	}}
	if n, err := io.CopyBuffer(io.MultiWriter(w, h), src, make([]byte, copySize)); err != nil {
		return fmt.Errorf("read image after %d bytes: %w", n, causeOf(ctx, err))
	}
	return verify(h, w.checksum)
}

// open asks for a file, or, by these headers, for a part of it.
func (c *ImageCache) open(ctx context.Context, from string, header http.Header) (*http.Response, error) {
	u, err := url.Parse(from)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != oci.Scheme) {
		return nil, errors.New("image URL is neither http nor https, nor oci")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("image URL is malformed")
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

// causeOf replaces "context canceled" by why it was.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, ErrNoRoom) {
		return cause
	}
	return err
}

// progressReader reports every read that brought something.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/internal/slots"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

const (
	// maxRead bounds an image that is read for its checksum only, maxKept one that is kept for a
	// push, in bytes. The largest images of vendors have about 500 MiB.
	maxRead = 4 << 30
	maxKept = 1 << 30
	// MaxDisk bounds the directory for temporary files, in bytes: kept images, and the copies that
	// drivers make of them during a push (bmc/vendor).
	MaxDisk = 2 << 30
	// reserveStep is how much disk is reserved at once for an image of unknown length.
	reserveStep = 64 << 20
	// stallPart is the part of FirmwareDownload without a byte after which a download is given up:
	// with the default of 15 minutes, one minute.
	stallPart = 15
	// imagesAtOnce bounds the images that are read at the same time, imagesPerKey those from one
	// server or for the hosts of one namespace: a server that never answers must leave slots to
	// the others.
	imagesAtOnce = 4
	imagesPerKey = 2
)

// errNoImage means that the image cannot be read at present, through no fault of host or spec.
var errNoImage = errors.New("the image cannot be read")

// imageKey identifies an image. The same file may be read for its checksum, and kept for a push.
type imageKey struct {
	url, checksum string
	keep          bool
}

// image is a file that is being read, or was read.
type image struct {
	// started: the download has its slot.
	started bool
	// waiting are the hosts to wake at the end.
	waiting map[types.NamespacedName]bool
	// at is when the download ended; zero while it runs.
	at  time.Time
	err error

	// file is the kept image of size bytes. It has no name, so that it ends with the process.
	file *os.File
	size int64
	// reserved is its part of MaxDisk: itself, and the copy of the driver that pushes it.
	reserved int64
	// pushes is the number of running pushes. idle drops the image after a time without any.
	pushes int
	idle   *time.Timer
}

// checkImage reports whether the image was read, with errNoImage or a permanent error. It starts to
// read an unknown image. BMCs check the vendor's signature, but not whether it is the desired file.
func (p *Preparer) checkImage(v View, key imageKey) (done bool, _ error) {
	now, w := p.Clock.Now(), p.Jobs
	w.mu.Lock()
	defer w.mu.Unlock()
	for old, known := range w.images {
		if !known.at.IsZero() && known.file == nil && (now.Sub(known.at) >= p.Timing.FirmwareResult || old == key && known.err != nil && !known.waiting[v.key()]) {
			delete(w.images, old)
		}
	}
	if known := w.images[key]; known != nil {
		if known.at.IsZero() {
			known.waiting[v.key()] = true
			return false, nil
		}
		delete(known.waiting, v.key()) // after this failure the host's next call retries
		return true, known.err
	}
	if w.images == nil {
		w.images = map[imageKey]*image{}
		w.downloads = &slots.Limiter[string]{Total: imagesAtOnce, PerKey: imagesPerKey}
	}
	added := &image{waiting: map[types.NamespacedName]bool{v.key(): true}}
	w.images[key] = added
	w.start(func(ctx context.Context) { p.readImage(ctx, key, v.Host.Namespace, added) })
	return false, nil
}

// waitsForSlot reports whether the download of an image has no slot yet.
func (w *Jobs) waitsForSlot(key imageKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.images[key]
	return known != nil && known.at.IsZero() && !known.started
}

// readImage waits for a slot, and then reads the image. namespace is that of the first host that
// needs it.
func (p *Preparer) readImage(ctx context.Context, key imageKey, namespace string, into *image) {
	w := p.Jobs
	release, err := w.downloads.Acquire(ctx, "server "+hostOf(key.url), "namespace "+namespace)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoImage, err)
	} else {
		w.mu.Lock()
		into.started = true
		w.mu.Unlock()
		err = p.fetchInTime(ctx, key, into)
		release()
	}
	w.mu.Lock()
	into.at, into.err = p.Clock.Now(), err
	if err != nil || !key.keep {
		w.drop(into)
	} else {
		w.diskUsed -= into.reserved - 2*into.size
		into.reserved = 2 * into.size
		w.scheduleDrop(key, into, p.Timing.FirmwareResult)
	}
	waiting := slices.Collect(maps.Keys(into.waiting))
	w.mu.Unlock()
	for _, host := range waiting {
		p.wake(host)
	}
}

// fetchInTime reads an image within FirmwareDownload. It gives up after a part of that time without
// a byte (stallPart).
func (p *Preparer) fetchInTime(ctx context.Context, key imageKey, into *image) error {
	stall := p.Timing.FirmwareDownload / stallPart
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timing.FirmwareDownload, fmt.Errorf("%w: %s did not send the whole file within %s", errNoImage, hostOf(key.url), p.Timing.FirmwareDownload))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stalled := time.AfterFunc(stall, func() { giveUp(fmt.Errorf("%w: %s sent no data for %s", errNoImage, hostOf(key.url), stall)) })
	defer stalled.Stop()
	err := p.fetch(ctx, key, into, func() { stalled.Reset(stall) })
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errNoImage) {
		return context.Cause(ctx)
	}
	return err
}

// drop removes the file of an image and its reservation. The caller holds the lock.
func (w *Jobs) drop(i *image) {
	w.diskUsed -= i.reserved
	i.reserved = 0
	if i.file != nil {
		_ = i.file.Close()
		i.file = nil
	}
}

// scheduleDrop drops a kept image after a time without pushes. The caller holds the lock.
func (w *Jobs) scheduleDrop(key imageKey, i *image, age time.Duration) {
	i.idle = time.AfterFunc(age, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if i.pushes == 0 && w.images[key] == i {
			delete(w.images, key)
			w.drop(i)
		}
	})
}

// reserve reserves disk for size bytes of an image and a copy. If needed, it drops images without
// pushes.
func (w *Jobs) reserve(i *image, size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, other := range w.images {
		if w.diskUsed-i.reserved+2*size > MaxDisk && other.file != nil && !other.at.IsZero() && other.pushes == 0 && len(other.waiting) == 0 {
			other.idle.Stop()
			delete(w.images, key)
			w.drop(other)
		}
	}
	if w.diskUsed-i.reserved+2*size > MaxDisk {
		return fmt.Errorf("%w: images for other hosts use the disk space", errNoImage)
	}
	w.diskUsed += 2*size - i.reserved
	i.reserved = 2 * size
	return nil
}

// growing reserves disk for an image of unknown length while it arrives. Reserving the maximum would
// leave nothing for others.
type growing struct {
	io.Writer
	works *Jobs
	image *image
	// written bytes, of which reserved have a reservation.
	written, reserved int64
}

// Write returns errNoImage if there is no disk space.
func (g *growing) Write(b []byte) (int, error) {
	if g.written += int64(len(b)); g.written > g.reserved {
		g.reserved = min((g.written/reserveStep+1)*reserveStep, maxKept)
		if err := g.works.reserve(g.image, g.reserved); err != nil {
			return 0, err
		}
	}
	return g.Writer.Write(b)
}

// hostOf returns the only part of a URL that messages may show.
func hostOf(text string) string {
	if address, err := url.Parse(text); err == nil {
		return address.Host
	}
	return "its URL"
}

// fetch reads the file, compares the checksum if there is one, and keeps the file if key.keep is
// set. It returns errNoImage for failures of a server or network. Errors omit the query of the URL,
// which may hold a signature. onRead is called for each piece.
func (p *Preparer) fetch(ctx context.Context, key imageKey, into *image, onRead func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, key.url, nil)
	if err != nil {
		return errors.New("read image: spec.firmware has an invalid URL")
	}
	if p.HTTP == nil {
		return fmt.Errorf("%w: this manager has no image sources", errNoImage)
	}
	response, err := p.HTTP.Do(request)
	var why *url.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	if errors.Is(err, httpd.ErrSourceNotAllowed) {
		return fmt.Errorf("read image: --image-sources of the manager does not allow its URL, a redirect, or the IP address of %s", request.URL.Hostname())
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s returned %s", errNoImage, request.URL.Host, response.Status)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("read image: the server returned %s", response.Status)
	}
	digest, limit := sha256.New(), int64(maxRead)
	to := io.Writer(digest)
	if key.keep {
		if limit = maxKept; response.ContentLength >= 0 {
			limit = min(limit, response.ContentLength)
		}
		file, err := p.createFile(into, response.ContentLength)
		if err != nil {
			return err
		}
		to = io.MultiWriter(digest, file)
		if response.ContentLength < 0 {
			to = &growing{Writer: to, works: p.Jobs, image: into}
		}
	}
	n, err := io.Copy(to, io.LimitReader(readObserver{response.Body, onRead}, limit+1))
	switch {
	case errors.Is(err, errNoImage):
		return err
	case err != nil:
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	case n > limit:
		return tooLarge(limit)
	case n == 0:
		return errors.New("read image: the file is empty")
	}
	if got := "sha256:" + hex.EncodeToString(digest.Sum(nil)); key.checksum != "" && got != key.checksum {
		return fmt.Errorf("check image: its checksum is %s, but spec.firmware has %s", got, key.checksum)
	}
	into.size = n
	return nil
}

// readObserver calls onRead for each piece that is read.
type readObserver struct {
	io.Reader
	onRead func()
}

func (r readObserver) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.onRead()
	}
	return n, err
}

func tooLarge(limit int64) error {
	return fmt.Errorf("read image: it is larger than %d MiB", limit>>20)
}

// createFile creates the file of an image. length is negative if the server does not report it.
func (p *Preparer) createFile(into *image, length int64) (*os.File, error) {
	if length > maxKept {
		return nil, tooLarge(maxKept)
	}
	if err := p.Jobs.reserve(into, max(length, 0)); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "firmware-")
	if err != nil {
		return nil, fmt.Errorf("%w: create temporary file: %w", errNoImage, err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: unlink temporary file: %w", errNoImage, err), file.Close())
	}
	p.Jobs.mu.Lock()
	defer p.Jobs.mu.Unlock()
	into.file = file
	return file, nil
}

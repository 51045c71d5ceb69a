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
	"net/http"
	"net/url"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

const (
	// maxRead bounds an image that is read for its checksum only, and maxKept one that is
	// kept to be pushed, in bytes; the largest that makers offer for one component have
	// about 500 MiB.
	maxRead = 4 << 30
	maxKept = 1 << 30
	// MaxDisk bounds what is in the directory for temporary files, in bytes: images that
	// are kept, and the copies that drivers make of them while they push (bmc/vendor).
	MaxDisk = 2 << 30
	// roomStep is the room that an image of unknown length takes at once.
	roomStep = 64 << 20
	// stallPart of the time for an image may pass without a byte of it: a minute of the
	// quarter of an hour.
	stallPart = 15
)

// errNoImage: the image cannot be read for now. That says nothing of host or wish.
var errNoImage = errors.New("the image cannot be read")

// imageKey names an image: the same file may be read for its checksum, and kept.
type imageKey struct {
	url, checksum string
	keep          bool
}

// image is a file at a URL that is being read, or was.
type image struct {
	// begun: it is being read, and waits for its turn no more.
	begun bool
	// waiting hosts are told of the end.
	waiting map[types.NamespacedName]bool
	// at is when the reading ended; zero: it has not.
	at  time.Time
	err error

	// file of an image that is kept, size bytes of it; it has no name any more, so that
	// nothing of it outlives the process.
	file *os.File
	size int64
	// room is what it has of MaxDisk: itself, and the copy of the driver that pushes it.
	room int64
	// pushes under way, and what drops the image once there were none for a while.
	pushes int
	idle   *time.Timer
}

// checkImage says whether the image was read, and what is wrong with it, errNoImage or
// for good; it begins to read it where nobody has. BMCs check what they are given by the
// maker's signature, not whether it is the file that was meant.
func (p *Preparer) checkImage(v View, key imageKey) (done bool, _ error) {
	now, w := p.Clock.Now(), p.Works
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
		delete(known.waiting, v.key()) // who has heard of a failure has it tried again
		return true, known.err
	}
	if w.images == nil {
		w.images = map[imageKey]*image{}
	}
	begun := &image{waiting: map[types.NamespacedName]bool{v.key(): true}}
	w.images[key] = begun
	w.goes(func(ctx context.Context) { p.readImage(ctx, key, v.Host.Namespace, begun) })
	return false, nil
}

// waitsForTurn says whether the reading of an image has not begun.
func (w *Works) waitsForTurn(key imageKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.images[key]
	return known != nil && known.at.IsZero() && !known.begun
}

// readImage waits for its turn, as long as the manager lives, and then takes its time at
// most. The namespace is that of the host for which it was asked first.
func (p *Preparer) readImage(ctx context.Context, key imageKey, namespace string, begun *image) {
	w := p.Works
	leave, err := w.queue.enter(ctx, hostOf(key.url), namespace)
	if err != nil {
		err = fmt.Errorf("%w: %w", errNoImage, err)
	} else {
		w.mu.Lock()
		begun.begun = true
		w.mu.Unlock()
		err = p.fetchInTime(ctx, key, begun)
		leave()
	}
	w.mu.Lock()
	begun.at, begun.err = p.Clock.Now(), err
	if err != nil || !key.keep {
		w.drop(begun)
	} else {
		w.room -= begun.room - 2*begun.size
		begun.room = 2 * begun.size
		w.rest(key, begun, p.Timing.FirmwareResult)
	}
	var waiting []types.NamespacedName
	for host := range begun.waiting {
		waiting = append(waiting, host)
	}
	w.mu.Unlock()
	for _, host := range waiting {
		p.wake(host)
	}
}

// fetchInTime reads an image within its time, and no longer than its server sends some of
// it now and then.
func (p *Preparer) fetchInTime(ctx context.Context, key imageKey, into *image) error {
	stall := p.Timing.FirmwareDownload / stallPart
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timing.FirmwareDownload, fmt.Errorf("%w: %s did not send all of it within %s", errNoImage, hostOf(key.url), p.Timing.FirmwareDownload))
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	stalled := time.AfterFunc(stall, func() { giveUp(fmt.Errorf("%w: %s sent nothing of it for %s", errNoImage, hostOf(key.url), stall)) })
	defer stalled.Stop()
	err := p.fetch(ctx, key, into, func() { stalled.Reset(stall) })
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errNoImage) {
		return context.Cause(ctx)
	}
	return err
}

// drop gives an image's room back. The lock is held.
func (w *Works) drop(i *image) {
	w.room -= i.room
	i.room = 0
	if i.file != nil {
		_ = i.file.Close()
		i.file = nil
	}
}

// rest has a kept image dropped once nobody has pushed it for so long. The lock is held.
func (w *Works) rest(key imageKey, i *image, age time.Duration) {
	i.idle = time.AfterFunc(age, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if i.pushes == 0 && w.images[key] == i {
			delete(w.images, key)
			w.drop(i)
		}
	})
}

// reserve takes room for an image of so many bytes in all, at the cost of those that nobody
// pushes.
func (w *Works) reserve(i *image, size int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, other := range w.images {
		if w.room-i.room+2*size > MaxDisk && other.file != nil && !other.at.IsZero() && other.pushes == 0 && len(other.waiting) == 0 {
			other.idle.Stop()
			delete(w.images, key)
			w.drop(other)
		}
	}
	if w.room-i.room+2*size > MaxDisk {
		return fmt.Errorf("%w: there is no room for it beside the images for other hosts", errNoImage)
	}
	w.room += 2*size - i.room
	i.room = 2 * size
	return nil
}

// growing takes room for an image of unknown length as it comes: all that it might need
// would leave none for others.
type growing struct {
	io.Writer
	works *Works
	image *image
	// n bytes were written, and there is room for up to.
	n, up int64
}

// Write implements io.Writer. Its error is errNoImage.
func (g *growing) Write(b []byte) (int, error) {
	if g.n += int64(len(b)); g.n > g.up {
		g.up = min((g.n/roomStep+1)*roomStep, maxKept)
		if err := g.works.reserve(g.image, g.up); err != nil {
			return 0, err
		}
	}
	return g.Writer.Write(b)
}

// hostOf is all of a URL that may be shown.
func hostOf(text string) string {
	if address, err := url.Parse(text); err == nil {
		return address.Host
	}
	return "its URL"
}

// fetch reads the file, compares the checksum, where one is given, and keeps the file, if
// it is to be. What a server or a network fails at is errNoImage; a query, which may hold
// a signature, is not repeated. came is told of each piece.
func (p *Preparer) fetch(ctx context.Context, key imageKey, into *image, came func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, key.url, nil)
	if err != nil {
		return errors.New("read the image: spec.firmware has no URL that can be read")
	}
	if p.HTTP == nil {
		return fmt.Errorf("%w: this manager reads none", errNoImage)
	}
	response, err := p.HTTP.Do(request)
	var why *url.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	if errors.Is(err, httpd.ErrSourceNotAllowed) {
		return fmt.Errorf("read the image: --image-sources of the manager does not allow its URL, a redirect of it or the address behind %s", request.URL.Hostname())
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s answers %s", errNoImage, request.URL.Host, response.Status)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("read the image: its server answers %s", response.Status)
	}
	digest, limit := sha256.New(), int64(maxRead)
	to := io.Writer(digest)
	if key.keep {
		if limit = maxKept; response.ContentLength >= 0 {
			limit = min(limit, response.ContentLength)
		}
		file, err := p.keep(into, response.ContentLength)
		if err != nil {
			return err
		}
		to = io.MultiWriter(digest, file)
		if response.ContentLength < 0 {
			to = &growing{Writer: to, works: p.Works, image: into}
		}
	}
	n, err := io.Copy(to, io.LimitReader(pieces{response.Body, came}, limit+1))
	switch {
	case errors.Is(err, errNoImage):
		return err
	case err != nil:
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	case n > limit:
		return tooLarge(limit)
	case n == 0:
		return errors.New("read the image: the file is empty")
	}
	if got := "sha256:" + hex.EncodeToString(digest.Sum(nil)); key.checksum != "" && got != key.checksum {
		return fmt.Errorf("the image at the URL has checksum %s, and spec.firmware says %s", got, key.checksum)
	}
	into.size = n
	return nil
}

// pieces tells of each piece that is read.
type pieces struct {
	io.Reader
	came func()
}

// Read implements io.Reader.
func (r pieces) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.came()
	}
	return n, err
}

func tooLarge(limit int64) error {
	return fmt.Errorf("read the image: it is larger than %d MiB", limit>>20)
}

// keep makes the file of an image; length is what its server says, negative: nothing.
func (p *Preparer) keep(into *image, length int64) (*os.File, error) {
	if length > maxKept {
		return nil, tooLarge(maxKept)
	}
	if err := p.Works.reserve(into, max(length, 0)); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "firmware-")
	if err != nil {
		return nil, fmt.Errorf("%w: keep it: %w", errNoImage, err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: keep it: %w", errNoImage, err), file.Close())
	}
	p.Works.mu.Lock()
	defer p.Works.mu.Unlock()
	into.file = file
	return file, nil
}

// imageOf names the image of a component, to be pushed or to be read only.
func imageOf(component infrav1.FirmwareComponent, keep bool) imageKey {
	return imageKey{component.URL, component.Checksum, keep}
}

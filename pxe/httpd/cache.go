// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
)

var (
	// ErrUnknownImage is returned for an image that the directory does not name.
	ErrUnknownImage = errors.New("unknown image")
	// ErrFetching is returned for an image that will be available soon.
	ErrFetching = errors.New("image is being fetched")
	// ErrFetchFailed is returned for an image whose last fetch failed recently.
	ErrFetchFailed = errors.New("image cannot be fetched")
	// ErrCacheFull is returned if all images that fill the cache are in use. It is temporary.
	ErrCacheFull = errors.New("the image cache is full of images in use")
)

// FetchingError is an ErrFetching of an image that is queued or being fetched.
type FetchingError struct {
	Since time.Duration // since the image was queued
	// Last is the error of the previous fetch, until the current one receives data; nil means none.
	Last error
}

func (e *FetchingError) Error() string {
	if e.Last == nil {
		return ErrFetching.Error()
	}
	return ErrFetching.Error() + " again after: " + e.Last.Error()
}

// Is makes the error an ErrFetching and hides Last.
func (e *FetchingError) Is(target error) bool { return target == ErrFetching }

const (
	// failurePause is the time before a failed fetch is retried. It doubles with each
	// consecutive failure, up to maxFailurePause.
	failurePause    = 5 * time.Second
	maxFailurePause = time.Minute
	defaultStall    = time.Minute
	tempPattern     = "fetch-*.part"
)

type CacheConfig struct {
	// Dir holds the images. It is created if missing, and no other cache may use it.
	Dir string
	// MaxBytes limits the disk space of images, including those being fetched. The least
	// recently used are evicted first. Required.
	MaxBytes int64
	// Sources names the images that may be fetched. Required.
	Sources pxe.ImageDirectory
	// Client fetches images; nil means NewClient, which allows public addresses only.
	Client *http.Client
	// Stall is how long a fetch may receive no data; 0 means one minute.
	Stall time.Duration
	// ResumePause is the time before an interrupted fetch is resumed; 0 means two seconds.
	ResumePause time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	Log *slog.Logger // may be nil
}

// ImageCache keeps verified OS images on disk. Each image is fetched once, regardless of the
// number of clients. It is safe for concurrent use. Run fetches the images.
type ImageCache struct {
	cfg        CacheConfig
	references referenceCache
	create     func(dir, pattern string) (*os.File, error)

	mu     sync.Mutex
	images map[string]*image // by checksum
	queue  fetchQueue
	good   goodURLs
}

type image struct {
	state imageState
	// size of the file on disk in bytes; 0 if there is none.
	size     int64
	lastUsed time.Time
	// reserved is the space of the running fetch, in bytes.
	reserved int64
	// owners are the namespaces whose claims named the image at ownersAt.
	owners   []string
	ownersAt time.Time
	// cancelFetch ends the running fetch; nil if there is none or it was canceled.
	cancelFetch context.CancelCauseFunc
	tries       map[string]*try
	// identity of the verified file; set in stateVerified.
	identity fileIdentity
	readers  readers
	// failure and failedAt describe the last fetch if it failed. failures counts
	// consecutive failures.
	failure  error
	failedAt time.Time
	failures int
	// queued is the time at which the image entered stateQueued.
	queued time.Time
	// receiving is true once the running fetch has received data.
	receiving bool
}

// fetching returns the error for a queued image. It contains the previous failure, which will
// probably occur again.
func (im *image) fetching(now time.Time) error {
	e := &FetchingError{Since: now.Sub(im.queued)}
	if !im.receiving {
		e.Last = im.failure
	}
	return e
}

type imageState int

const (
	stateFound  imageState = iota // on disk, but not verified
	stateQueued                   // to be verified or fetched
	stateVerified
	stateFailed
)

// NewImageCache opens a cache directory. It serves images at once that an earlier process
// verified and that are unchanged. Other images are verified before their first use.
func NewImageCache(cfg CacheConfig) (*ImageCache, error) {
	if cfg.MaxBytes <= 0 {
		return nil, errors.New("image cache needs a size bound")
	}
	if cfg.Client == nil {
		cfg.Client = NewClient(ClientConfig{})
	}
	cfg.Stall, cfg.ResumePause = cmp.Or(cfg.Stall, defaultStall), cmp.Or(cfg.ResumePause, resumePause)
	cfg.Log = cmp.Or(cfg.Log, discard)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make image cache: %w", err)
	}
	c := &ImageCache{cfg: cfg, references: referenceCache{directory: cfg.Sources, now: cfg.Now},
		images: map[string]*image{}, queue: newFetchQueue(), good: goodURLs{}, create: os.CreateTemp}
	if err := c.scan(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(0, nil) // MaxBytes may be smaller than before
	return c, nil
}

// OpenImage is a verified image, open for reading. An open image is not evicted.
type OpenImage struct {
	*os.File
	Fetched time.Time
	release func()
	// opened is the time of Open, and at the last seen file offset: see readers.
	opened time.Time
	at     int64
}

func (o *OpenImage) Close() error {
	o.release()
	return o.File.Close()
}

// Open opens a verified image. It never waits: a missing image is queued, and the error is a
// FetchingError. Other errors wrap ErrUnknownImage or ErrFetchFailed. An image is unknown two
// seconds after the last claim that names it is gone.
func (c *ImageCache) Open(checksum string) (*OpenImage, error) {
	owners, named := c.references.recent(checksum)
	if !named {
		return nil, fmt.Errorf("%w: %s", ErrUnknownImage, checksum)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[checksum]
	if !ok {
		im = &image{state: stateFound}
	}
	now := c.cfg.Now()
	im.setOwners(owners, true, now)
	switch {
	case im.state == stateVerified:
		if open, err := c.openVerified(checksum, im); err == nil {
			im.lastUsed = now
			return open, nil
		} else {
			c.cfg.Log.Warn("Cached image changed on disk; verifying it again", "image", checksum, "error", err)
		}
	case im.state == stateQueued:
		return nil, im.fetching(now)
	case im.state == stateFailed && now.Sub(im.failedAt) < im.pause():
		return nil, fmt.Errorf("%w: %w", ErrFetchFailed, im.failure)
	}
	im.queued = now
	// If the queue is full, the client asks again later.
	if c.queue.add(checksum, im.owners) {
		im.state, im.lastUsed, im.receiving = stateQueued, now, false
		c.images[checksum] = im
	}
	return nil, im.fetching(now)
}

func (c *ImageCache) markReceiving(checksum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if im, ok := c.images[checksum]; ok {
		im.receiving = true
	}
}

func (im *image) pause() time.Duration {
	return min(failurePause<<min(im.failures-1, 10), maxFailurePause)
}

// openVerified opens the image if the file is unchanged since it was verified.
func (c *ImageCache) openVerified(checksum string, im *image) (*OpenImage, error) {
	f, err := os.Open(c.path(checksum))
	if err != nil {
		return nil, fmt.Errorf("open cached image: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !im.identity.matches(info) {
		err = errChanged
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cached image: %w", err), f.Close())
	}
	open := &OpenImage{File: f, Fetched: info.ModTime()}
	im.readers.add(open, c.cfg.Now())
	var once sync.Once
	open.release = func() { once.Do(func() { c.release(im, open) }) }
	return open, nil
}

func (c *ImageCache) release(im *image, open *OpenImage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im.readers.remove(open)
	im.lastUsed = c.cfg.Now()
}

// Run fetches the requested images until ctx ends.
func (c *ImageCache) Run(ctx context.Context) error {
	var g errgroup.Group
	for range maxFetches {
		g.Go(func() error {
			for {
				next, ok := c.next(ctx)
				if !ok {
					return nil
				}
				identity, err := c.obtain(ctx, next.checksum)
				c.finish(next, identity, err)
			}
		})
	}
	err := g.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saveIndex() // with the time of each image's last use
	return err
}

// obtain ensures that a verified copy is on disk and returns its identity.
func (c *ImageCache) obtain(ctx context.Context, checksum string) (fileIdentity, error) {
	identity, err := verifyFile(ctx, c.path(checksum), checksum)
	switch {
	case err == nil:
		return identity, nil
	case ctx.Err() != nil:
		return fileIdentity{}, ctx.Err()
	case !errors.Is(err, fs.ErrNotExist):
		c.cfg.Log.Warn("Cached image is unusable; fetching it again", "image", checksum, "error", err)
	}
	c.discard(checksum)
	source, named := c.references.source(checksum) // the claim may be gone by now
	if !named {
		return fileIdentity{}, errUnnamed
	}
	from := c.chooseURL(source)
	began, arrived := time.Now(), &atomic.Int64{}
	identity, err = c.fetch(ctx, source.Checksum, from, arrived)
	if ctx.Err() == nil {
		c.recordTry(source.Checksum, from, err, arrived.Load(), time.Since(began))
	}
	return identity, err
}

func (c *ImageCache) discard(checksum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[checksum] // queued images are never removed
	if err := os.Remove(c.path(checksum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("Cannot remove unusable image", "image", checksum, "error", err)
		return
	}
	im.size = 0
}

func (c *ImageCache) finish(done waiting, identity fileIdentity, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.done(done)
	checksum := done.checksum
	im, now := c.images[checksum], c.cfg.Now()
	if errors.Is(err, errUnnamed) {
		c.cfg.Log.Info("Stopped fetching image", "image", checksum, "reason", err.Error())
		if im.state = stateFound; im.size == 0 {
			delete(c.images, checksum)
		}
		return
	}
	if err != nil {
		c.cfg.Log.Warn("Cannot fetch image", "image", checksum, "error", err)
		im.state, im.failure, im.failedAt, im.failures = stateFailed, err, now, im.failures+1
		return
	}
	im.state, im.identity, im.size, im.lastUsed, im.failures, im.failure = stateVerified, identity, identity.Size, now, 0, nil
	im.tries = nil
	c.saveIndex()
}

// path returns the path of an image: the checksum with a dash instead of the colon.
func (c *ImageCache) path(checksum string) string {
	return filepath.Join(c.cfg.Dir, strings.Replace(checksum, ":", "-", 1))
}

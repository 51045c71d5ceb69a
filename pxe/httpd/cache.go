// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
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
	// ErrUnknownImage reports an image that the directory does not name.
	ErrUnknownImage = errors.New("unknown image")
	// ErrFetching reports an image that will be there soon.
	ErrFetching = errors.New("image is being fetched")
	// ErrFetchFailed reports an image whose last fetch failed a moment ago.
	ErrFetchFailed = errors.New("image cannot be fetched")
	// ErrNoRoom reports an image for which there is no room now: what fills the
	// cache is being served. It is an ErrFetchFailed that passes.
	ErrNoRoom = errors.New("the image cache is full of images in use")
)

// FetchingError is an ErrFetching of an image that waits for a fetcher, or has one.
type FetchingError struct {
	// Since is for how long.
	Since time.Duration
	// Last is what its last fetch failed with, unless this one has brought something; nil:
	// nothing.
	Last error
}

func (e *FetchingError) Error() string {
	if e.Last == nil {
		return ErrFetching.Error()
	}
	return ErrFetching.Error() + " again after: " + e.Last.Error()
}

// Is makes it an ErrFetching, and nothing that the last fetch was.
func (e *FetchingError) Is(target error) bool { return target == ErrFetching }

const (
	// failurePause is how long a failed fetch is not tried again, whoever asks; it
	// doubles with each failure in a row, up to maxFailurePause.
	failurePause    = 5 * time.Second
	maxFailurePause = time.Minute
	// defaultStall ends a fetch from which no byte has come for so long.
	defaultStall = time.Minute
	tempPattern  = "fetch-*.part"
)

// CacheConfig configures an ImageCache.
type CacheConfig struct {
	// Dir holds the images. It is made if missing, and must be this cache's
	// alone.
	Dir string
	// MaxBytes bounds what the images take on disk, those that are being fetched
	// included; the least recently used go first. Required.
	MaxBytes int64
	// Sources names the images that may be fetched. Required.
	Sources pxe.ImageDirectory
	// Client fetches; nil means NewClient's, from public addresses.
	Client *http.Client
	// Stall is how long a fetch may go without a byte; 0 means a minute.
	Stall time.Duration
	// ResumePause is how long a fetch that was cut off waits before it goes on; 0 means
	// two seconds.
	ResumePause time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log may be nil.
	Log *slog.Logger
}

// ImageCache keeps verified OS images on disk. Each image is fetched once,
// however many clients ask for it. It is safe for concurrent use; Run does the
// fetching.
type ImageCache struct {
	cfg   CacheConfig
	names names
	// create makes the file of a fetch.
	create func(dir, pattern string) (*os.File, error)

	mu     sync.Mutex
	images map[string]*image // by checksum
	queue  fetchQueue
	// good has, by checksum, the key of the place from which the image came last.
	good goodPlaces
}

// image is what is known of one checksum.
type image struct {
	state imageState
	// size is that of the file on disk, 0 if there is none.
	size     int64
	lastUsed time.Time
	// reserved is room taken by a fetch that is not finished, in bytes.
	reserved int64
	// owners are the namespaces whose claims named the image at ownersAt.
	owners   []string
	ownersAt time.Time
	// callOff ends the fetch that is under way; nil: there is none, or it was called off.
	callOff context.CancelCauseFunc
	// tries has what became of fetches by place.
	tries map[string]*try
	// identity is the file's that was verified; set in state verified.
	identity fileIdentity
	readers  readers
	// failure and failedAt are of the last fetch, if it failed; failures is how many did
	// in a row.
	failure  error
	failedAt time.Time
	failures int
	// queued is since when it is in state queued, if it is.
	queued time.Time
	// coming: the fetch under way has brought something.
	coming bool
}

// fetching is the answer while the image is queued: what failed the last time will fail
// again as a rule, and whoever waits should know.
func (im *image) fetching(now time.Time) error {
	e := &FetchingError{Since: now.Sub(im.queued)}
	if !im.coming {
		e.Last = im.failure
	}
	return e
}

type imageState int

const (
	// found on disk, with content that nobody vouches for.
	stateFound imageState = iota
	// queued to be verified or fetched.
	stateQueued
	stateVerified
	stateFailed
)

// NewImageCache opens a cache directory. Images that an earlier process verified
// and that nobody has touched since are served at once; others are verified
// before their first use.
func NewImageCache(cfg CacheConfig) (*ImageCache, error) {
	if cfg.MaxBytes <= 0 {
		return nil, errors.New("image cache needs a size bound")
	}
	if cfg.Client == nil {
		cfg.Client = NewClient(ClientConfig{})
	}
	if cfg.Stall <= 0 {
		cfg.Stall = defaultStall
	}
	if cfg.ResumePause <= 0 {
		cfg.ResumePause = resumePause
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make image cache: %w", err)
	}
	c := &ImageCache{cfg: cfg, names: names{directory: cfg.Sources, now: cfg.Now},
		images: map[string]*image{}, queue: newFetchQueue(), good: goodPlaces{}, create: os.CreateTemp}
	if err := c.scan(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.evict(0, nil) // the bound may be a smaller one than before
	return c, nil
}

// OpenImage is a verified image, open for reading. While it is open its file
// stays where it is.
type OpenImage struct {
	*os.File
	// Fetched is when the image came.
	Fetched time.Time
	release func()
	// opened is when, and at is the place in the file at the last look: see readers.
	opened time.Time
	at     int64
}

// Close releases the image.
func (o *OpenImage) Close() error {
	o.release()
	return o.File.Close()
}

// Open opens a verified image for reading. It never waits: an image that is not
// here yet is queued, and a FetchingError returned. Other errors wrap ErrUnknownImage or
// ErrFetchFailed. An image that claims have ceased to name is unknown within two seconds.
func (c *ImageCache) Open(checksum string) (*OpenImage, error) {
	owners, named := c.names.lately(checksum)
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
	im.own(owners, true, now)
	switch {
	case im.state == stateVerified:
		if open, err := c.openVerified(checksum, im); err == nil {
			im.lastUsed = now
			return open, nil
		} else {
			c.cfg.Log.Warn("cached image is gone or was touched, and will be verified again", "image", checksum, "error", err)
		}
	case im.state == stateQueued:
		return nil, im.fetching(now)
	case im.state == stateFailed && now.Sub(im.failedAt) < im.pause():
		return nil, fmt.Errorf("%w: %w", ErrFetchFailed, im.failure)
	}
	im.queued = now
	// Where it finds no place the client asks again, when there may be one.
	if c.queue.add(checksum, im.owners) {
		im.state, im.lastUsed, im.coming = stateQueued, now, false
		c.images[checksum] = im
	}
	return nil, im.fetching(now)
}

// comes notes that a fetch has brought something.
func (c *ImageCache) comes(checksum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if im, ok := c.images[checksum]; ok {
		im.coming = true
	}
}

// pause is how long a failure is remembered.
func (im *image) pause() time.Duration {
	return min(failurePause<<min(im.failures-1, 10), maxFailurePause)
}

// openVerified opens the very file that was verified.
func (c *ImageCache) openVerified(checksum string, im *image) (*OpenImage, error) {
	f, err := os.Open(c.path(checksum))
	if err != nil {
		return nil, fmt.Errorf("open cached image: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !im.identity.is(info) {
		err = errTouched
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

// Run fetches what is asked for, until ctx ends.
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
	c.saveIndex() // when each was used last
	return err
}

// obtain makes sure that a verified copy is on disk and returns its identity.
func (c *ImageCache) obtain(ctx context.Context, checksum string) (fileIdentity, error) {
	identity, err := verifyFile(ctx, c.path(checksum), checksum)
	switch {
	case err == nil:
		return identity, nil
	case ctx.Err() != nil:
		return fileIdentity{}, ctx.Err()
	case !errors.Is(err, fs.ErrNotExist):
		c.cfg.Log.Warn("cached image is unusable and will be fetched again", "image", checksum, "error", err)
	}
	c.discard(checksum)
	source, named := c.names.source(checksum) // now: it has waited for a fetcher
	if !named {
		return fileIdentity{}, errUnnamed
	}
	place := c.place(source)
	began, arrived := time.Now(), &atomic.Int64{}
	identity, err = c.fetch(ctx, source.Checksum, place, arrived)
	if ctx.Err() == nil {
		c.tried(source.Checksum, place, err, arrived.Load(), time.Since(began))
	}
	return identity, err
}

// discard removes what is on disk of an image that is queued.
func (c *ImageCache) discard(checksum string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	im := c.images[checksum] // nothing removes it while it is queued
	if err := os.Remove(c.path(checksum)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("unusable image not removed", "image", checksum, "error", err)
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
		c.cfg.Log.Info("image is not fetched any more", "image", checksum, "reason", err.Error())
		if im.state = stateFound; im.size == 0 {
			delete(c.images, checksum)
		}
		return
	}
	if err != nil {
		c.cfg.Log.Warn("image fetch failed", "image", checksum, "error", err)
		im.state, im.failure, im.failedAt, im.failures = stateFailed, err, now, im.failures+1
		return
	}
	im.state, im.identity, im.size, im.lastUsed, im.failures, im.failure = stateVerified, identity, identity.Size, now, 0, nil
	im.tries = nil
	c.saveIndex()
}

// path is where an image lies: the checksum with a dash for the colon.
func (c *ImageCache) path(checksum string) string {
	return filepath.Join(c.cfg.Dir, strings.Replace(checksum, ":", "-", 1))
}

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
)

const (
	fetchers = 2
	// queueLength is how many images may wait for a fetcher.
	queueLength = 64
	// failurePause is how long a failed fetch is not tried again, whoever asks.
	failurePause = 5 * time.Second
	// defaultStall ends a fetch from which no byte has come for so long.
	defaultStall = time.Minute
	tempPattern  = "fetch-*.part"
)

// CacheConfig configures an ImageCache.
type CacheConfig struct {
	// Dir holds the images. It is made if missing, and must be this cache's
	// alone.
	Dir string
	// MaxBytes bounds the images kept; the least recently used go first. While
	// images are being fetched, the disk holds those on top. Required.
	MaxBytes int64
	// Sources names the images that may be fetched. Required.
	Sources pxe.ImageDirectory
	// Client fetches; nil means one with the environment's proxies.
	Client *http.Client
	// Stall is how long a fetch may go without a byte; 0 means a minute.
	Stall time.Duration
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
	queue chan pxe.ImageSource

	mu     sync.Mutex
	images map[string]*image // by checksum
}

// image is what is known of one checksum.
type image struct {
	state    imageState
	size     int64
	lastUsed time.Time
	// failure and failedAt are set in state failed.
	failure  error
	failedAt time.Time
}

type imageState int

const (
	// found on disk at the start: verified by an earlier process, perhaps.
	stateFound imageState = iota
	stateQueued
	stateVerified
	stateFailed
)

// NewImageCache opens a cache directory. What an earlier process left there is
// used again, once its checksum has been verified anew.
func NewImageCache(cfg CacheConfig) (*ImageCache, error) {
	if cfg.MaxBytes <= 0 {
		return nil, errors.New("image cache needs a size bound")
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			ResponseHeaderTimeout: 30 * time.Second,
			TLSHandshakeTimeout:   10 * time.Second,
			// The checksum is of what the server holds, not of what it unpacks to.
			DisableCompression: true,
		}}
	}
	if cfg.Stall <= 0 {
		cfg.Stall = defaultStall
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
	c := &ImageCache{cfg: cfg, queue: make(chan pxe.ImageSource, queueLength), images: map[string]*image{}}
	if err := c.scan(); err != nil {
		return nil, err
	}
	return c, nil
}

// scan takes stock of the directory and removes unfinished fetches.
func (c *ImageCache) scan() error {
	entries, err := os.ReadDir(c.cfg.Dir)
	if err != nil {
		return fmt.Errorf("read image cache: %w", err)
	}
	for _, e := range entries {
		if partial, _ := filepath.Match(tempPattern, e.Name()); partial {
			if err := os.Remove(filepath.Join(c.cfg.Dir, e.Name())); err != nil {
				return fmt.Errorf("remove unfinished fetch: %w", err)
			}
			continue
		}
		info, err := e.Info()
		checksum, ok := checksumOfFile(e.Name())
		if err != nil || !ok || !info.Mode().IsRegular() {
			continue
		}
		c.images[checksum] = &image{state: stateFound, size: info.Size(), lastUsed: info.ModTime()}
	}
	return nil
}

// Open opens a verified image for reading, and returns when it was fetched. It
// never waits: an image that is not here yet is queued, and ErrFetching
// returned. Other errors wrap ErrUnknownImage or ErrFetchFailed.
func (c *ImageCache) Open(checksum string) (*os.File, time.Time, error) {
	source, ok := c.cfg.Sources.Image(checksum)
	if !ok || source.Checksum != checksum {
		return nil, time.Time{}, fmt.Errorf("%w: %s", ErrUnknownImage, checksum)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	im, ok := c.images[checksum]
	if !ok {
		im = &image{state: stateFound}
	}
	now := c.cfg.Now()
	switch {
	case im.state == stateVerified:
		f, modTime, err := c.openVerified(checksum)
		if err == nil {
			im.lastUsed = now
			return f, modTime, nil
		}
		c.cfg.Log.Warn("cached image is gone and will be fetched again", "image", checksum, "error", err)
	case im.state == stateQueued:
		return nil, time.Time{}, ErrFetching
	case im.state == stateFailed && now.Sub(im.failedAt) < failurePause:
		return nil, time.Time{}, fmt.Errorf("%w: %w", ErrFetchFailed, im.failure)
	}
	select {
	case c.queue <- source:
		c.images[checksum] = &image{state: stateQueued, size: im.size, lastUsed: now}
	default: // the client asks again, when there may be room
	}
	return nil, time.Time{}, ErrFetching
}

func (c *ImageCache) openVerified(checksum string) (*os.File, time.Time, error) {
	f, err := os.Open(c.path(checksum))
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("open cached image: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}, errors.Join(fmt.Errorf("open cached image: %w", err), f.Close())
	}
	return f, info.ModTime(), nil
}

// Run fetches what is asked for, until ctx ends.
func (c *ImageCache) Run(ctx context.Context) error {
	var g errgroup.Group
	for range fetchers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return nil
				case source := <-c.queue:
					size, err := c.obtain(ctx, source)
					c.finish(source.Checksum, size, err)
				}
			}
		})
	}
	return g.Wait()
}

// obtain makes sure that a verified copy is on disk and returns its size.
func (c *ImageCache) obtain(ctx context.Context, source pxe.ImageSource) (int64, error) {
	size, err := verifyFile(c.path(source.Checksum), source.Checksum)
	if err == nil {
		return size, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("cached image is unusable and will be fetched again", "image", source.Checksum, "error", err)
	}
	return c.fetch(ctx, source)
}

func (c *ImageCache) finish(checksum string, size int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.cfg.Now()
	if err != nil {
		c.cfg.Log.Warn("image fetch failed", "image", checksum, "error", err)
		c.images[checksum] = &image{state: stateFailed, failure: err, failedAt: now}
		return
	}
	c.images[checksum] = &image{state: stateVerified, size: size, lastUsed: now}
	c.evict(checksum)
}

// evict removes the least recently used images until the rest fits. A client
// that is reading a removed file reads it to its end.
func (c *ImageCache) evict(keep string) {
	for c.total() > c.cfg.MaxBytes {
		oldest := ""
		for checksum, im := range c.images {
			if checksum == keep || (im.state != stateVerified && im.state != stateFound) {
				continue
			}
			if oldest == "" || im.lastUsed.Before(c.images[oldest].lastUsed) {
				oldest = checksum
			}
		}
		if oldest == "" {
			return
		}
		if err := os.Remove(c.path(oldest)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.cfg.Log.Warn("old image not removed", "image", oldest, "error", err)
		}
		delete(c.images, oldest)
	}
}

func (c *ImageCache) total() int64 {
	var sum int64
	for _, im := range c.images {
		if im.state == stateVerified || im.state == stateFound {
			sum += im.size
		}
	}
	return sum
}

// path is where an image lies: the checksum with a dash for the colon.
func (c *ImageCache) path(checksum string) string {
	return filepath.Join(c.cfg.Dir, strings.Replace(checksum, ":", "-", 1))
}

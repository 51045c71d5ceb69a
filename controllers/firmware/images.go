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
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

const (
	// maxImage bounds an image of firmware that is read for its checksum, in bytes.
	maxImage = 4 << 30
	// imagesAtOnce bounds how many are read at the same time.
	imagesAtOnce = 4
)

// errNoImage: the image cannot be read for now. That says nothing of host or wish.
var errNoImage = errors.New("the image cannot be read for its checksum")

// Works are what goes on beside the workers, and what is known of it: images of firmware
// are read for their checksums, each once however many hosts wait for it, since a slow
// server would keep a worker for minutes (I13). The zero value is ready.
type Works struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the manager's own
	running sync.WaitGroup
	known   map[imageKey]*imageReading
	slots   chan struct{}
}

// Start is the manager's way to end the works: it returns once its context and then they
// have ended. Works that nobody starts end by their own deadlines.
func (w *Works) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	w.mu.Unlock()
	<-ctx.Done()
	w.running.Wait()
	return nil
}

// goes lets a work go on beside the worker. The lock is held.
func (w *Works) goes(work func(ctx context.Context)) {
	ctx := w.ctx
	if ctx == nil {
		ctx = context.Background()
	}
	if ctx.Err() != nil { // nobody waits for it any more
		go work(ctx)
		return
	}
	w.running.Go(func() { work(ctx) })
}

type imageKey struct{ url, checksum string }

type imageReading struct {
	// waiting hosts are told of the end.
	waiting map[types.NamespacedName]bool
	// at is when it ended; zero: it has not.
	at  time.Time
	err error
}

// checkImage says whether the image was read, and what is wrong with it, errNoImage or
// for good; it begins to read it where nobody has. BMCs check what they fetch by the
// maker's signature, not whether it is the file that was meant.
func (p *Preparer) checkImage(v View, component infrav1.FirmwareComponent) (done bool, _ error) {
	if component.Checksum == "" {
		return true, nil
	}
	key, now := imageKey{component.URL, component.Checksum}, p.Clock.Now()
	p.Works.mu.Lock()
	defer p.Works.mu.Unlock()
	for old, reading := range p.Works.known {
		if !reading.at.IsZero() && (now.Sub(reading.at) >= p.Waits.ImageAge || old == key && reading.err != nil && !reading.waiting[v.key()]) {
			delete(p.Works.known, old)
		}
	}
	if reading := p.Works.known[key]; reading != nil {
		if reading.at.IsZero() {
			reading.waiting[v.key()] = true
			return false, nil
		}
		delete(reading.waiting, v.key()) // who has heard of a failure has it tried again
		return true, reading.err
	}
	if p.Works.known == nil {
		p.Works.known, p.Works.slots = map[imageKey]*imageReading{}, make(chan struct{}, imagesAtOnce)
	}
	reading := &imageReading{waiting: map[types.NamespacedName]bool{v.key(): true}}
	p.Works.known[key] = reading
	p.Works.goes(func(ctx context.Context) { p.readImage(ctx, key, reading) })
	return false, nil
}

// readImage ends with the controller, or after its time.
func (p *Preparer) readImage(ctx context.Context, key imageKey, reading *imageReading) {
	ctx, cancel := context.WithTimeout(ctx, p.Waits.ImageTime)
	defer cancel()
	var err error
	select {
	case p.Works.slots <- struct{}{}:
		err = sumImage(ctx, p.HTTP, key)
		<-p.Works.slots
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errNoImage, ctx.Err())
	}
	p.Works.mu.Lock()
	reading.at, reading.err = p.Clock.Now(), err
	var waiting []types.NamespacedName
	for host := range reading.waiting {
		waiting = append(waiting, host)
	}
	p.Works.mu.Unlock()
	for _, host := range waiting {
		p.Wake(host)
	}
}

// hostOf is all of a URL that may be shown.
func hostOf(text string) string {
	if address, err := url.Parse(text); err == nil {
		return address.Host
	}
	return "its URL"
}

// sumImage compares the checksum. What a server or a network fails at is errNoImage; a
// query, which may hold a signature, is not repeated.
func sumImage(ctx context.Context, client *http.Client, key imageKey) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, key.url, nil)
	if err != nil {
		return errors.New("read the image for its checksum: spec.firmware has no URL that can be read")
	}
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	var why *url.Error
	if errors.As(err, &why) {
		err = why.Err
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= http.StatusInternalServerError, response.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%w: %s answers %s", errNoImage, request.URL.Host, response.Status)
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("read the image for its checksum: its server answers %s", response.Status)
	}
	digest := sha256.New()
	n, err := io.Copy(digest, io.LimitReader(response.Body, maxImage+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w", errNoImage, request.URL.Host, err)
	case n > maxImage:
		return fmt.Errorf("read the image for its checksum: it is larger than %d GiB", maxImage>>30)
	}
	if got := "sha256:" + hex.EncodeToString(digest.Sum(nil)); got != key.checksum {
		return fmt.Errorf("the image at the URL has checksum %s, and spec.firmware says %s", got, key.checksum)
	}
	return nil
}

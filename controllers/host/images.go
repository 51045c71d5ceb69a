// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

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
	"github.com/ingot-metal/ingot/bmc"
)

const (
	// maxImage bounds an image of firmware that is read for its checksum, in bytes.
	maxImage = 4 << 30
	// imageTime bounds one reading, and imageAge how long its result is used: hosts that
	// are prepared together share it.
	imageTime = 15 * time.Minute
	imageAge  = 10 * time.Minute
	// imagesAtOnce bounds how many are read at the same time.
	imagesAtOnce = 4
)

// errNoImage: the image cannot be read for now. That says nothing of host or wish.
var errNoImage = errors.New("the image cannot be read for its checksum")

// imageChecks reads images of firmware for their checksums, each once however many hosts
// wait for it, and beside the workers: a slow server would keep one for minutes (I13).
// The zero value is ready.
type imageChecks struct {
	mu    sync.Mutex
	known map[imageKey]*imageReading
	slots chan struct{}
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
func (r *Reconciler) checkImage(host *infrav1.IngotHost, component infrav1.FirmwareComponent) (done bool, _ error) {
	if component.Checksum == "" {
		return true, nil
	}
	key, now := imageKey{component.URL, component.Checksum}, r.Clock.Now()
	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	for old, reading := range r.images.known {
		if !reading.at.IsZero() && (now.Sub(reading.at) >= r.waits().ImageAge || old == key && reading.err != nil && !reading.waiting[keyOf(host)]) {
			delete(r.images.known, old)
		}
	}
	if reading := r.images.known[key]; reading != nil {
		if reading.at.IsZero() {
			reading.waiting[keyOf(host)] = true
			return false, nil
		}
		delete(reading.waiting, keyOf(host)) // who has heard of a failure has it tried again
		return true, reading.err
	}
	if r.images.known == nil {
		r.images.known, r.images.slots = map[imageKey]*imageReading{}, make(chan struct{}, imagesAtOnce)
	}
	reading := &imageReading{waiting: map[types.NamespacedName]bool{keyOf(host): true}}
	r.images.known[key] = reading
	go r.readImage(r.wakes.context(), key, reading)
	return false, nil
}

// readImage ends with the controller, or after its time.
func (r *Reconciler) readImage(ctx context.Context, key imageKey, reading *imageReading) {
	ctx, cancel := context.WithTimeout(ctx, r.waits().ImageTime)
	defer cancel()
	var err error
	select {
	case r.images.slots <- struct{}{}:
		err = sumImage(ctx, r.Images, key)
		<-r.images.slots
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errNoImage, ctx.Err())
	}
	r.images.mu.Lock()
	reading.at, reading.err = r.Clock.Now(), err
	var waiting []types.NamespacedName
	for host := range reading.waiting {
		waiting = append(waiting, host)
	}
	r.images.mu.Unlock()
	for _, host := range waiting {
		r.contacts.goOn(host)
		r.Heard(host.String(), bmc.NewsHappened)
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

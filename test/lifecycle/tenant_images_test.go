// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/network"
)

// slowServer serves images of the length that it announces, 100 KiB a second: not so slowly that
// a fetch would be called off for that.
type slowServer struct {
	url string
	// reading counts the readers, asked all requests.
	reading, asked atomic.Int32
}

func newSlowServer(t *testing.T, length int64) *slowServer {
	t.Helper()
	s := &slowServer{}
	ended := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
		w.WriteHeader(http.StatusOK)
		s.asked.Add(1)
		s.reading.Add(1)
		defer s.reading.Add(-1)
		flush := http.NewResponseController(w)
		for {
			if _, err := w.Write(make([]byte, 10<<10)); err != nil {
				return
			}
			_ = flush.Flush()
			select {
			case <-ended:
				return
			case <-r.Context().Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}))
	t.Cleanup(func() { close(ended); server.Close() })
	s.url = server.URL + "/disk.raw"
	return s
}

// holdsImages has the intruder's own machines, on its own servers, name images that are to keep
// others from theirs: one that announces the size of the cache, and a slow source for the image
// of another tenant. Meanwhile a client reads an image of that tenant a byte at a time.
func (i *intruder) holdsImages() {
	i.t.Helper()
	const cacheSize = 1 << 30 // --image-cache-gib=1
	site := i.site
	image := newImageServer(i.t, 2) // of the victim's tenant, and public
	huge, slow := newSlowServer(i.t, cacheSize), newSlowServer(i.t, cacheSize/2)
	for _, name := range []string{mineName, slowName} {
		i.register(name)
	}
	site.Await(i.t, "the intruder's own hosts are free", i.own.Free(mineName, slowName))
	i.own.createClusterObjects(i.t)
	claim := func(name, url, checksum string) {
		i.own.ClaimAs(i.t, name, infrav1.IngotMachineSpec{HostSelector: theHost(name), Image: infrav1.Image{URL: url, Checksum: checksum}})
	}
	claim(mineName, huge.url, "sha256:"+strings.Repeat("a", 64))
	claim(slowName, slow.url, image.Checksum)
	// The huge image is refused again and again while the cache holds an image of others.
	site.Await(i.t, "the huge image is asked for, and the slow source is read", func(context.Context) (string, error) {
		if huge.asked.Load() == 0 || slow.reading.Load() == 0 {
			return fmt.Sprintf("%d requests for the huge image, %d readers of the slow source", huge.asked.Load(), slow.reading.Load()), nil
		}
		return "", nil
	})
	reader, err := network.NewStack(site.DataCenter.Switch, network.StackConfig{Name: "reader", Address: netip.MustParsePrefix(site.subnet("79/16"))})
	check(i.t, err)
	defer func() { _ = reader.Close() }()
	from := &http.Client{Transport: &http.Transport{DialContext: reader.DialContext}}
	dribble := i.dribble(from)
	defer dribble()

	site.ClaimAs(i.t, spareName, infrav1.IngotMachineSpec{HostSelector: theHost(spareName), Image: infrav1.Image{URL: image.URL, Checksum: image.Checksum}})
	i.attack("the token of the intruder's own host, for an order of another tenant", func(ctx context.Context) error {
		order := (&abuse{t: i.t, site: site, name: spareName}).atWork("")
		own := newUnknownClient(i.t, i.nics[mineName])
		if err := own.Steal(ctx, site.subnet("2")+":8880", site.Server(mineName).MAC.String()); err != nil {
			return err // nothing was tried
		}
		reason, err := own.Call(ctx, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: order, VerifiedChecksum: image.Checksum})
		if err == nil && reason == "" {
			return errors.New("it was accepted")
		}
		return err
	})
	installed := func(context.Context) error {
		site.Await(i.t, "the other tenant's host to be installed", site.Installed(spareName))
		return nil
	}
	i.attack("a slow image holds a fetcher, one of the size of the cache asks for the other, and another tenant installs a third", installed)
	i.attack("a slow source for the checksum of another tenant's image", func(ctx context.Context) error {
		if image.Fetches() == 0 {
			return errors.New("the image did not come from its tenant's own source")
		}
		return installed(ctx)
	})
	i.attack("an image that announces the size of the cache removes those of others", func(ctx context.Context) error {
		before := site.Images.Fetches()
		if err := fetchImage(ctx, from, i.imageURL(site.Images.Checksum), len(site.Images.Content)); err != nil {
			return err
		}
		if now := site.Images.Fetches(); now != before {
			return fmt.Errorf("the image was fetched again: %d times, then %d", before, now)
		}
		return nil
	})
	i.attack("a client that reads another tenant's image a byte at a time", installed)
}

// imageURL is where the boot server has an image.
func (i *intruder) imageURL(checksum string) string {
	_, digest, _ := strings.Cut(checksum, ":")
	return "http://" + i.site.subnet("2") + ":8880/images/" + digest
}

// dribble begins to read the victim's image, a byte a second, until what it returns is called.
func (i *intruder) dribble(client *http.Client) func() {
	i.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.imageURL(i.site.Images.Checksum), nil)
	check(i.t, err)
	response, err := client.Do(request)
	check(i.t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = response.Body.Close() }()
		for one := make([]byte, 1); ctx.Err() == nil; time.Sleep(time.Second) {
			if _, err := response.Body.Read(one); err != nil {
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// fetchImage reads an image to its end.
func fetchImage(ctx context.Context, client *http.Client, url string, size int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || n != int64(size) {
		return fmt.Errorf("answered %d with %d bytes", response.StatusCode, n)
	}
	return nil
}

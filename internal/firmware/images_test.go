// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/test/eventually"
)

// Servers that accept requests and never answer lose their slot after a short time. Meanwhile the images
// of others are read, and the message names the server.
func TestServersThatSayNothing(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter){
		"no header": func(http.ResponseWriter) {},
		"no end": func(w http.ResponseWriter) {
			_, _ = w.Write([]byte("the beginning"))
			_ = http.NewResponseController(w).Flush()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, nil)
			s.Timing.FirmwareDownload = stallPart * time.Second / 2
			tarpit := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer(w)
				<-r.Context().Done()
			}))
			defer tarpit.Close()
			const victims = imagesPerKey + 1
			for n := range victims {
				v := s.view(&Memory{})
				v.Host.Name = fmt.Sprint("victim-", n)
				if err := s.Execute(t.Context(), v, s.step(fmt.Sprint(tarpit.URL, "/", n), "")); err != nil {
					t.Fatal(err)
				}
			}
			good, checksum := serve(t, []byte("an image"))
			v := s.view(&Memory{})
			v.Host.Namespace = "another"
			var done bool
			var err error
			seen := map[types.NamespacedName]bool{}
			for range 5 { // a machine so slow that half a second is too short is no failure
				for done, err = s.checkImage(v, imageKey{good, checksum, true}); !done; done, err = s.checkImage(v, imageKey{good, checksum, true}) {
					seen[<-s.woken] = true
				}
				if err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("the image of another server: %v", err)
			}
			delete(seen, v.key())
			for len(seen) < victims {
				if host := <-s.woken; host != v.key() {
					seen[host] = true
				}
			}
			victim := s.view(&Memory{})
			victim.Host.Name = "victim-0"
			done, err = s.checkImage(victim, imageKey{tarpit.URL + "/0", "", true})
			if !done || !errors.Is(err, errNoImage) || !strings.Contains(err.Error(), "sent no data for") || !strings.Contains(err.Error(), hostOf(tarpit.URL)) {
				t.Errorf("the image that never came: %t, %v", done, err)
			}
		})
	}
}

// A host that waits for a slot reports that, and no fault of the image.
func TestWaitsForItsTurn(t *testing.T) {
	s := newShop(t, nil)
	goOn := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-goOn
		_, _ = w.Write([]byte("an image"))
	}))
	defer slow.Close()
	memories := make([]Memory, imagesPerKey+1)
	execute := func(n int) {
		t.Helper()
		v := s.view(&memories[n])
		v.Host.Name = fmt.Sprint("host-", n)
		if err := s.Execute(t.Context(), v, s.step(fmt.Sprint(slow.URL, "/", n), "")); err != nil {
			t.Fatal(err)
		}
	}
	for n := range memories {
		execute(n)
	}
	waiting := func() (n int) {
		for i := range memories {
			execute(i)
			if strings.Contains(memories[i].update.reason, "after others") {
				n++
			}
		}
		return n
	}
	eventually.Wait{Interval: time.Millisecond}.Until(t, "one that waits for its turn", eventually.Holds(func() bool { return waiting() == 1 }))
	close(goOn)
	for range memories {
		<-s.woken
	}
}

// An image of unknown length reserves the disk space that it needs, and not the maximum.
func TestRoomOfUnknownLength(t *testing.T) {
	s := newShop(t, nil)
	goOn := make(chan struct{})
	chunked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("an image"))
		_ = http.NewResponseController(w).Flush()
		<-goOn
	}))
	defer chunked.Close()
	v := s.view(&Memory{})
	if err := s.Execute(t.Context(), v, s.step(chunked.URL, "")); err != nil {
		t.Fatal(err)
	}
	room := func() int64 {
		s.Jobs.mu.Lock()
		defer s.Jobs.mu.Unlock()
		return s.Jobs.diskUsed
	}
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the image's first bytes", eventually.Holds(func() bool { return room() != 0 }))
	if got := room(); got != 2*reserveStep {
		t.Errorf("8 bytes have come, and %d are taken", got)
	}
	close(goOn)
	<-s.woken
	if got := room(); got != 2*8 {
		t.Errorf("an image of 8 bytes keeps room for %d", got)
	}
	full := growing{Writer: io.Discard, works: s.Jobs, image: &image{}}
	s.Jobs.mu.Lock()
	s.Jobs.diskUsed = MaxDisk
	s.Jobs.mu.Unlock()
	if _, err := full.Write([]byte("x")); !errors.Is(err, errNoImage) {
		t.Errorf("no room is left: %v", err)
	}
}

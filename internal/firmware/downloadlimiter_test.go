// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ingot-metal/ingot/test/eventually"
)

// TestQueue: places go to those who came first, but for those whose server or namespace
// has its places already.
func TestQueue(t *testing.T) {
	type reader struct{ server, namespace string }
	for _, tc := range []struct {
		name    string
		readers []reader // in the order in which they come
		want    []int    // who reads
		// gone leaves, whether it reads or waits; then reads who is in after.
		gone  int
		after []int
	}{
		{"as many as there are places", []reader{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}, {"f", "6"}}, []int{0, 1, 2, 3}, 1, []int{0, 2, 3, 4}},
		{"of one server", []reader{{"a", "1"}, {"a", "2"}, {"a", "3"}, {"b", "4"}}, []int{0, 1, 3}, 0, []int{1, 2, 3}},
		{"of one namespace", []reader{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"d", "2"}}, []int{0, 1, 3}, 3, []int{0, 1}},
		{"one that waits is gone", []reader{{"a", "1"}, {"a", "1"}, {"a", "1"}, {"a", "1"}}, []int{0, 1}, 2, []int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var q queue
				reads := make([]bool, len(tc.readers))
				leaves := make([]context.CancelFunc, len(tc.readers))
				for i, r := range tc.readers {
					ctx, cancel := context.WithCancel(t.Context())
					leaves[i] = cancel
					go func() {
						leave, err := q.enter(ctx, r.server, r.namespace)
						if err != nil {
							return
						}
						reads[i] = true
						<-ctx.Done()
						reads[i] = false
						leave()
					}()
					synctest.Wait()
				}
				look := func(when string, want []int) {
					t.Helper()
					synctest.Wait()
					var got []int
					for i, reads := range reads {
						if reads {
							got = append(got, i)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", when, diff)
					}
				}
				look("who reads", tc.want)
				leaves[tc.gone]()
				look("after one has gone", tc.after)
				for _, leave := range leaves {
					leave()
				}
				synctest.Wait()
				if len(q.reading)+len(q.waiting) > 0 {
					t.Error("places are lost")
				}
			})
		})
	}
}

// Servers that take requests and send nothing, or send some and no more, keep a place for a
// short while, and those of others are read meanwhile; the message names who is to blame.
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
			const victims = imagesOfOne + 1
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
			if !done || !errors.Is(err, errNoImage) || !strings.Contains(err.Error(), "sent nothing of it for") || !strings.Contains(err.Error(), hostOf(tarpit.URL)) {
				t.Errorf("the image that never came: %t, %v", done, err)
			}
		})
	}
}

// Who waits for a turn is told so, and not that the image is at fault.
func TestWaitsForItsTurn(t *testing.T) {
	s := newShop(t, nil)
	goOn := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-goOn
		_, _ = w.Write([]byte("an image"))
	}))
	defer slow.Close()
	memories := make([]Memory, imagesOfOne+1)
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
			if strings.Contains(memories[i].putOff.why, "as soon as it is its turn") {
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

// An image whose server does not say how long it is takes the room that it needs, and not
// all that it might.
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
		s.Works.mu.Lock()
		defer s.Works.mu.Unlock()
		return s.Works.room
	}
	eventually.Wait{Interval: time.Millisecond}.Until(t, "the image's first bytes", eventually.Holds(func() bool { return room() != 0 }))
	if got := room(); got != 2*roomStep {
		t.Errorf("8 bytes have come, and %d are taken", got)
	}
	close(goOn)
	<-s.woken
	if got := room(); got != 2*8 {
		t.Errorf("an image of 8 bytes keeps room for %d", got)
	}
	full := growing{Writer: io.Discard, works: s.Works, image: &image{}}
	s.Works.mu.Lock()
	s.Works.room = MaxDisk
	s.Works.mu.Unlock()
	if _, err := full.Write([]byte("x")); !errors.Is(err, errNoImage) {
		t.Errorf("no room is left: %v", err)
	}
}

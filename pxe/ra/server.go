// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/links"
)

// Server advertises networks on the interfaces whose subnets they are.
type Server struct {
	Networks pxe.Advertised
	// Log may be nil.
	Log *slog.Logger
}

// Conn is a socket for router advertisements: a *Socket, or a test's.
type Conn interface {
	// Receive waits for a solicitation and returns the interface that it came in by.
	Receive() (index int, err error)
	// Links are the interfaces that are served.
	Links() []links.Link
	// Send sends a message to all nodes of an interface.
	Send(message []byte, index int) error
	Close() error
}

// beat is how often the server looks whether something is due.
const beat = 100 * time.Millisecond

// Serve advertises until ctx ends or the socket breaks, and closes the socket. Where
// it was a default router it says that it is none any more. A nil error means that ctx
// ended.
func (s *Server) Serve(ctx context.Context, conn Conn) error {
	defer func() { _ = conn.Close() }()
	asked := make(chan int)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		// Closing wakes the reader.
		defer func() { _ = conn.Close() }()
		s.advertise(ctx, conn, asked)
		return nil
	})
	g.Go(func() error { return s.listen(ctx, conn, asked) })
	return g.Wait()
}

func (s *Server) listen(ctx context.Context, conn Conn, asked chan<- int) error {
	for {
		index, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read router solicitation: %w", err)
		case err != nil:
			s.log().Debug("Router solicitation was not read", "error", err)
			index = 0 // nobody's
		}
		select {
		case asked <- index:
		case <-ctx.Done():
			return nil
		}
	}
}

// advertise is the one goroutine that sends.
func (s *Server) advertise(ctx context.Context, conn Conn, asked <-chan int) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	paces := map[int]*state{}
	for {
		select {
		case <-ctx.Done():
			s.leave(conn, paces)
			return
		case index := <-asked:
			if pace := paces[index]; pace != nil {
				pace.asked(time.Now(), chance)
			}
		case <-tick.C:
			s.round(conn, paces, time.Now())
		}
	}
}

func chance(most time.Duration) time.Duration { return rand.N(most) }

// state is one interface's.
type state struct {
	pacing
	// said is what it was told last, so that it can be taken back.
	said []pxe.Advertisement
	// look is when to look next whether that still holds.
	look time.Time
}

// round sends what is due on each interface.
func (s *Server) round(conn Conn, paces map[int]*state, now time.Time) {
	var networks []pxe.Advertisement
	looked := false
	for _, link := range conn.Links() {
		pace := paces[link.Index]
		if pace == nil {
			pace = &state{}
			paces[link.Index] = pace
		}
		if !pace.due(now) && now.Before(pace.look) {
			continue
		}
		if !looked {
			// Another order is no change, of which hosts would be told.
			networks = slices.SortedFunc(slices.Values(s.Networks.Advertisements()), func(a, b pxe.Advertisement) int {
				return strings.Compare(a.Network, b.Network)
			})
			looked = true
		}
		s.say(conn, link, pace, on(link, networks), now)
	}
}

// say sends what there is to say of the networks that an interface is of now, if it is
// due or is something else than before.
func (s *Server) say(conn Conn, link links.Link, pace *state, here []pxe.Advertisement, now time.Time) {
	pace.look = now.Add(lookEvery)
	if !reflect.DeepEqual(pace.said, here) {
		pace.changed(now)
	}
	if !pace.due(now) {
		return
	}
	gone := slices.DeleteFunc(slices.Clone(pace.said), func(n pxe.Advertisement) bool {
		return slices.ContainsFunc(here, func(other pxe.Advertisement) bool { return reflect.DeepEqual(other, n) })
	})
	message := Message(link.Hardware, Said{Networks: here, Gone: gone})
	if message == nil {
		pace.next = now.Add(lookEvery) // there may be something then
		return
	}
	pace.done(now, chance)
	if err := conn.Send(message, link.Index); err != nil {
		s.log().Debug("Router advertisement was not sent", "interface", link.Name, "error", err)
		return
	}
	pace.said = here
}

// leave tells those who were told of a default router.
func (s *Server) leave(conn Conn, paces map[int]*state) {
	for _, link := range conn.Links() {
		pace := paces[link.Index]
		if pace == nil || !slices.ContainsFunc(pace.said, func(n pxe.Advertisement) bool { return n.RouterLifetime > 0 }) {
			continue
		}
		if err := conn.Send(Message(link.Hardware, Said{Networks: pace.said, Last: true}), link.Index); err != nil {
			s.log().Debug("Last router advertisement was not sent", "interface", link.Name, "error", err)
		}
	}
}

// on are the networks of an interface: those whose prefix is that of one of its
// addresses. One that is wider would have hosts take addresses behind routers for their
// neighbours, one that is narrower tells that the interface is of something else.
func on(link links.Link, networks []pxe.Advertisement) []pxe.Advertisement {
	var out []pxe.Advertisement
	for _, n := range networks {
		if slices.ContainsFunc(link.Here, func(subnet netip.Prefix) bool { return subnet.Masked() == n.Prefix.Masked() }) {
			out = append(out, n)
		}
	}
	return out
}

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ra

import (
	"cmp"
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

// Server advertises each network on the interfaces that have its prefix.
type Server struct {
	Networks pxe.Advertised
	Log      *slog.Logger // may be nil
}

// Conn is a socket for router advertisements: a *Socket, or a fake.
type Conn interface {
	// Receive waits for a solicitation and returns the index of its interface.
	Receive() (index int, err error)
	Links() []links.Link
	// Send sends a message to all nodes of an interface.
	Send(message []byte, index int) error
	Close() error
}

// checkInterval is the interval of checks for due advertisements.
const checkInterval = 100 * time.Millisecond

// Serve advertises until ctx ends or the socket fails, and closes the socket. At the end it
// withdraws itself as default router. It returns nil when ctx ends.
func (s *Server) Serve(ctx context.Context, conn Conn) error {
	defer func() { _ = conn.Close() }()
	solicitations := make(chan int)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		// Closing the socket ends the reader.
		defer func() { _ = conn.Close() }()
		s.advertise(ctx, conn, solicitations)
		return nil
	})
	g.Go(func() error { return s.listen(ctx, conn, solicitations) })
	return g.Wait()
}

func (s *Server) listen(ctx context.Context, conn Conn, solicitations chan<- int) error {
	for {
		index, err := conn.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read router solicitation: %w", err)
		case err != nil:
			s.log().Debug("Cannot read a router solicitation", "error", err)
			index = 0 // no interface
		}
		select {
		case solicitations <- index:
		case <-ctx.Done():
			return nil
		}
	}
}

// advertise sends all advertisements, in one goroutine.
func (s *Server) advertise(ctx context.Context, conn Conn, solicitations <-chan int) {
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	states := map[int]*linkState{}
	for {
		select {
		case <-ctx.Done():
			s.withdraw(conn, states)
			return
		case index := <-solicitations:
			if state := states[index]; state != nil {
				state.solicited(time.Now(), jitter)
			}
		case <-tick.C:
			s.sendDue(conn, states, time.Now())
		}
	}
}

func jitter(most time.Duration) time.Duration { return rand.N(most) }

type linkState struct {
	pacing
	advertised []pxe.Advertisement
	nextCheck  time.Time
}

func (s *Server) sendDue(conn Conn, states map[int]*linkState, now time.Time) {
	var networks []pxe.Advertisement
	looked := false
	for _, link := range conn.Links() {
		state := states[link.Index]
		if state == nil {
			state = &linkState{}
			states[link.Index] = state
		}
		if !state.isDue(now) && now.Before(state.nextCheck) {
			continue
		}
		if !looked {
			// Sort, so that a different order does not count as a change.
			networks = slices.SortedFunc(slices.Values(s.Networks.Advertisements()), func(a, b pxe.Advertisement) int {
				return strings.Compare(a.Network, b.Network)
			})
			looked = true
		}
		s.sendIfDue(conn, link, state, networksOn(link, networks), now)
	}
}

// sendIfDue sends an advertisement if it is due or the networks of the interface changed.
func (s *Server) sendIfDue(conn Conn, link links.Link, state *linkState, here []pxe.Advertisement, now time.Time) {
	state.nextCheck = now.Add(recheckEvery)
	if !reflect.DeepEqual(state.advertised, here) {
		state.changed(now)
	}
	if !state.isDue(now) {
		return
	}
	gone := slices.DeleteFunc(slices.Clone(state.advertised), func(n pxe.Advertisement) bool {
		return slices.ContainsFunc(here, func(other pxe.Advertisement) bool { return reflect.DeepEqual(other, n) })
	})
	message := Message(link.Hardware, Content{Networks: here, Gone: gone})
	if message == nil {
		state.next = now.Add(recheckEvery)
		return
	}
	state.done(now, jitter)
	if err := conn.Send(message, link.Index); err != nil {
		s.log().Debug("Cannot send a router advertisement", "interface", link.Name, "error", err)
		return
	}
	state.advertised = here
}

// withdraw withdraws this server as default router where it was advertised as one.
func (s *Server) withdraw(conn Conn, states map[int]*linkState) {
	for _, link := range conn.Links() {
		state := states[link.Index]
		if state == nil || !slices.ContainsFunc(state.advertised, func(n pxe.Advertisement) bool { return n.RouterLifetime > 0 }) {
			continue
		}
		if err := conn.Send(Message(link.Hardware, Content{Networks: state.advertised, Last: true}), link.Index); err != nil {
			s.log().Debug("Cannot send the last router advertisement", "interface", link.Name, "error", err)
		}
	}
}

// networksOn returns the networks of an interface: those with exactly the prefix of one of its
// addresses. With a wider prefix hosts would look for addresses behind routers on the link.
// A narrower prefix means that the interface belongs to another network.
func networksOn(link links.Link, networks []pxe.Advertisement) []pxe.Advertisement {
	var out []pxe.Advertisement
	for _, n := range networks {
		if slices.ContainsFunc(link.Subnets, func(subnet netip.Prefix) bool { return subnet.Masked() == n.Prefix.Masked() }) {
			out = append(out, n)
		}
	}
	return out
}

func (s *Server) log() *slog.Logger { return cmp.Or(s.Log, discard) }

var discard = slog.New(slog.DiscardHandler)

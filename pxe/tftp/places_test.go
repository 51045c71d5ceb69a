// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Whose place is given to one who waits, by what has been acknowledged at each look.
func TestWhoIsSlow(t *testing.T) {
	const (
		enough = slowRate * 30 // in half a minute
		half   = 30 * time.Second
	)
	type look struct {
		after        time.Duration
		acknowledged []int64 // by transfer
	}
	for name, c := range map[string]struct {
		waits string // "192.0.2.9" if empty
		most  int    // 3 if 0
		looks []look
		want  int // the transfer; -1: none
	}{
		"all are fast enough":                {looks: []look{{half, []int64{enough, enough, enough}}}, want: -1},
		"one is slow":                        {looks: []look{{half, []int64{enough, enough - 1, enough}}}, want: 1},
		"the slowest of several":             {looks: []look{{half, []int64{3000, 2000, 1000}}}, want: 2},
		"slow, but not for long":             {looks: []look{{half - 1, []int64{0, 0, 0}}}, want: -1},
		"slow in the end":                    {looks: []look{{time.Hour, []int64{1 << 30, 1 << 30, 1 << 30}}, {time.Hour + half, []int64{1 << 31, 1 << 31, 1<<30 + 1}}}, want: 2},
		"a pause":                            {looks: []look{{time.Hour, []int64{1 << 30, 1 << 30, 1 << 30}}, {time.Hour + half - 1, []int64{1 << 31, 1 << 31, 1 << 30}}}, want: -1},
		"looked at often":                    {looks: []look{{half / 2, []int64{enough, enough, 0}}, {half - 1, []int64{enough, enough, 0}}, {half, []int64{enough, enough, 0}}}, want: 2},
		"a place is free":                    {most: 4, looks: []look{{half, []int64{0, 0, 0}}}, want: -1},
		"who waits has its share":            {waits: "192.0.2.1", looks: []look{{half, []int64{0, 0, 0}}}, want: -1},
		"a place is about to be free anyhow": {looks: []look{{half, []int64{enough, 0, 1}}, {half + 1, []int64{enough, 0, 1}}}, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(max(c.most, 3), 10, half)
			var running []*session
			for i := range 3 {
				client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 2000)
				s := p.begin(waiting{from: client})
				s.answered.Store(true)
				running = append(running, s)
			}
			if c.waits == "" {
				c.waits = "192.0.2.9"
			}
			began := time.Now()
			for _, s := range running {
				s.began, s.looked = began, began
			}
			for _, l := range c.looks {
				for i, n := range l.acknowledged {
					running[i].acknowledged.Store(n)
				}
				p.makeRoom(netip.MustParseAddr(c.waits), began.Add(l.after))
			}
			if got := slices.IndexFunc(running, func(s *session) bool { return s.ctx.Err() != nil }); got != c.want {
				t.Errorf("transfer %d gives its place up, want %d", got, c.want)
			}
			ended := 0
			for _, s := range running {
				if s.ctx.Err() != nil {
					ended++
				}
				if s.ctx.Err() != nil && !errors.Is(context.Cause(s.ctx), errSlow) {
					t.Errorf("it ends because %v", context.Cause(s.ctx))
				}
			}
			if ended > 1 {
				t.Errorf("%d give their places up for one", ended)
			}
		})
	}
}

// One client does not fill the queue, from however many ports it asks.
func TestQueueIsForAll(t *testing.T) {
	p := newPlaces(1, 8, time.Minute)
	port := func(address string, n int) netip.AddrPort {
		return netip.AddrPortFrom(netip.MustParseAddr(address), uint16(n))
	}
	req := readRequest{name: "a", mode: "octet"}
	var got []placing
	for n := range 4 {
		_, place := p.take(port("192.0.2.1", 1000+n), req)
		got = append(got, place)
	}
	_, place := p.take(port("192.0.2.2", 1000), req)
	if diff := cmp.Diff([]placing{placeNow, placeLater, placeLater, placeNever, placeLater}, append(got, place)); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

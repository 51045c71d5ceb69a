// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// What a request may cost. Whoever is lent an address has a token, so that one machine
// must not be able to take the memory of the manager by requests that are in order.
const (
	// maxHeaderBytes: a token has some hundred.
	maxHeaderBytes = 16 << 10
	// maxSmallBytes bounds the calls that say no more than some names and numbers.
	maxSmallBytes = 64 << 10
	// maxValues bounds the values of a body: two bytes of JSON can be a whole struct in
	// memory. Facts of thousands of disks have less.
	maxValues = 64 << 10
	// MaxConnections is how many connections a listener of the agent API should accept at a
	// time, about 33 KiB of memory each. An agent has one for as long as it works; a boot
	// server lets no address have more than a few.
	MaxConnections = 8192
	// patience is how long a request waits for a place before it is asked to come again.
	patience = 10 * time.Second
	// bodyTimeout is for a body, less than the patience of those who wait for its place: an
	// agent sends all of it at once.
	bodyTimeout = 5 * time.Second
)

// Requests that are worked on at once, those that wait for a place not counted: of
// all, and of one address.
const (
	smallAtOnce, smallPerAddress = 128, 16
	factsAtOnce, factsPerAddress = 16, 4
)

// limit is what one kind of call may take.
type limit struct {
	bytes  int64
	places *places
}

// places are held while a body is read and worked on.
type places struct {
	all        chan struct{}
	perAddress int
	patience   time.Duration

	mu   sync.Mutex
	used map[netip.Addr]*share
}

// share is what one address has; users count those who hold a place or wait for one.
type share struct {
	slots chan struct{}
	users int
}

func newPlaces(all, perAddress int) *places {
	return &places{all: make(chan struct{}, all), perAddress: perAddress, patience: patience, used: map[netip.Addr]*share{}}
}

// take waits for a place of the address, and then for one of all; nil: there was none
// in time. What it returns gives the place back.
func (p *places) take(ctx context.Context, address netip.Addr) func() {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	own := p.enter(address)
	if !acquire(ctx, own.slots) {
		p.leave(address, own)
		return nil
	}
	if !acquire(ctx, p.all) {
		<-own.slots
		p.leave(address, own)
		return nil
	}
	return func() {
		<-p.all
		<-own.slots
		p.leave(address, own)
	}
}

func acquire(ctx context.Context, slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *places) enter(address netip.Addr) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	own := p.used[address]
	if own == nil {
		own = &share{slots: make(chan struct{}, p.perAddress)}
		p.used[address] = own
	}
	own.users++
	return own
}

func (p *places) leave(address netip.Addr, own *share) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(p.used, address)
	}
}

// decode reads a body into what is expected.
func decode(w http.ResponseWriter, r *http.Request, most int64, in any) *agentapi.Error {
	body, err := readBody(w, r, most)
	if errors.Is(err, os.ErrDeadlineExceeded) { // the network is slow, perhaps: it may come again
		return notReady(fmt.Sprintf("the request did not come within %s", bodyTimeout))
	}
	if err != nil {
		return &agentapi.Error{Reason: agentapi.ReasonTooLarge, Message: "the request is too large or was cut off"}
	}
	if bytes.Count(body, []byte{','}) > maxValues {
		return &agentapi.Error{Reason: agentapi.ReasonTooLarge, Message: "the request has too many values"}
	}
	if err := json.Unmarshal(body, in); err != nil {
		return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "the request is not the JSON expected: " + err.Error()}
	}
	return nil
}

// readBody in its time. What comes after it has the server's own again.
func readBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without a connection has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err == nil {
		_ = control.SetReadDeadline(time.Now().Add(readTimeout))
	}
	return body, err
}

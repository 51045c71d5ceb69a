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
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/slots"
)

// Limits of a request. Everyone who gets an address has a token, so that valid requests of one
// machine must not exhaust the manager's memory.
const (
	// maxHeaderBytes leaves room: a token has some hundred bytes.
	maxHeaderBytes = 16 << 10
	// maxSmallBytes bounds the body of calls that carry a few names and numbers.
	maxSmallBytes = 64 << 10
	// maxValues bounds the values of a body: two bytes of JSON can become a whole struct in
	// memory. The facts of thousands of disks have fewer values.
	maxValues = 64 << 10
	// MaxConnections is how many connections a listener of the agent API should accept at a
	// time, about 33 KiB of memory each. An agent keeps one connection while it works; a boot
	// server limits the connections per address.
	MaxConnections = 8192
	// slotTimeout is how long a request waits for a slot before the client must retry. Together
	// with bodyTimeout and workTimeout it is less than an agent's timeout of 30 s. A request whose
	// agent has given up wastes API reads, and is repeated (decision 0371).
	slotTimeout = 6 * time.Second
	// workTimeout bounds the work on a request that has arrived.
	workTimeout = 15 * time.Second
	// overloadRetry is the minimum delay before an agent repeats a request that got no slot.
	overloadRetry = 5 * time.Second
	// bodyTimeout is the time for a body. It is shorter than slotTimeout, so that waiting
	// requests outlast a slow body.
	bodyTimeout = 5 * time.Second
)

// Numbers of requests that are processed at once, in total and per address. Each request makes its
// API calls one after the other, and all share the rate limit of the API client. Sessions have
// their own slots, so that new work does not delay the reports of running work.
const (
	smallAtOnce, smallPerAddress    = 128, 16
	sessionsAtOnce, factsPerAddress = 10, 4
	reportsAtOnce, contactsAtOnce   = 6, 2
)

// limit is what one kind of call may use. A slot is held while a body is read and processed.
type limit struct {
	bytes int64
	slots *slots.Limiter[netip.Addr]
}

// acquire waits for a slot. It returns nil if no slot was free within slotTimeout.
func (l limit) acquire(ctx context.Context, address netip.Addr) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	release, _ = l.slots.Acquire(ctx, address)
	if release != nil && ctx.Err() != nil { // the client has gone
		release()
		return nil
	}
	return release
}

// decode reads a JSON body into in.
func decode(w http.ResponseWriter, r *http.Request, maxBytes int64, in any) *agentapi.Error {
	body, err := readBody(w, r, maxBytes)
	if errors.Is(err, os.ErrDeadlineExceeded) { // the network may be slow: the client may retry
		return notReady(fmt.Sprintf("the request did not arrive within %s", bodyTimeout))
	}
	if err != nil {
		return &agentapi.Error{Reason: agentapi.ReasonTooLarge, Message: "the request is too large or was cut off"}
	}
	if bytes.Count(body, []byte{','}) > maxValues {
		return &agentapi.Error{Reason: agentapi.ReasonTooLarge, Message: "the request has too many values"}
	}
	if err := json.Unmarshal(body, in); err != nil {
		return badRequest("the request is not the JSON expected: " + err.Error())
	}
	return nil
}

// readBody reads a body within bodyTimeout, and then restores the server's own timeout.
func readBody(w http.ResponseWriter, r *http.Request, maxBytes int64) ([]byte, error) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout)) // fails only without a connection
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err == nil {
		_ = control.SetReadDeadline(time.Now().Add(readTimeout))
	}
	return body, err
}

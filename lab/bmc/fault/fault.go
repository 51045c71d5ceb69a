// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// PowerLie is a wrong power state.
type PowerLie string

// The wrong power states.
const (
	// Stale shows the state of the moment in which the fault was set.
	Stale PowerLie = "Stale"
	// Opposite shows On for off and Off for on.
	Opposite PowerLie = "Opposite"
)

// ExtraMember is part of the path of each member that Faults.Members adds.
const ExtraMember = "/extra-"

// Faults are the faults of a BMC. A request keeps the faults it began with. The zero value has no
// faults. For faults that do not concern requests there are methods: Reboot, Down, SetAuthority,
// SetPassword.
type Faults struct {
	// Match limits the faults to some requests; nil: all.
	Match func(method, path string) bool
	// Every limits the faults to each n-th matching request; 0 and 1: all.
	Every int
	// Share limits the faults to this share of the matching requests, pseudo-randomly; 0: all.
	Share float64
	// Latency is added to each answer.
	Latency time.Duration
	// Status is answered without handling the request, for example 401 or 503; with RetryAfter in
	// seconds if not 0.
	Status     int
	RetryAfter time.Duration
	// MessageID is the only content of the answer with Status; empty: a general error with a text.
	MessageID string
	// Hang sends no answer; the request has no effect.
	Hang bool
	// Drop breaks the connection without an answer; the request has no effect.
	Drop bool
	// LoseReply handles the request and then breaks the connection.
	LoseReply bool
	// Body is sent with status 200 instead of the answer.
	Body string
	// Flood answers a GET with endless JSON.
	Flood bool
	// Truncate cuts the answer to a GET in the middle.
	Truncate bool
	// WrongTypes sends numbers for strings, strings for numbers and objects for lists.
	WrongTypes bool
	// RawControls sends raw tabs and line breaks in strings, which is not valid JSON.
	RawControls bool
	// Members is the minimum number of members of each collection; the added ones can be read and are
	// empty.
	Members int
	// Trickle sends the answer to a GET byte by byte, with this pause.
	Trickle time.Duration
	// SessionsFull refuses logins as if all sessions were in use.
	SessionsFull bool
	// PowerLie misreports PowerState.
	PowerLie PowerLie
	// ForgetBoot accepts a boot override and drops it.
	ForgetBoot bool
	// ForgetSessions refuses every session opened before the fault was set, as after a restart of the
	// BMC.
	ForgetSessions bool
}

// fault is one set of faults, how often it matched, and its random numbers.
type fault struct {
	Faults
	asked int
	dice  *rand.Rand
}

func (f *fault) fits(method, path string) bool {
	if f.Match != nil && !f.Match(method, path) {
		return false
	}
	f.asked++
	if f.Share > 0 && f.dice.Float64() >= f.Share {
		return false
	}
	return f.Every <= 1 || f.asked%f.Every == 0
}

// List is the current faults. The zero value has none. It is not safe for concurrent use.
type List struct{ faults []*fault }

// Set replaces the faults.
func (l *List) Set(faults ...Faults) {
	l.faults = nil
	for i, f := range faults {
		l.faults = append(l.faults, &fault{Faults: f, dice: rand.New(rand.NewPCG(1, uint64(i)))})
	}
}

// For returns the sum of the faults for a request. Of conflicting values, the first counts.
func (l *List) For(method, path string) (sum Faults) {
	for _, f := range l.faults {
		if f.fits(method, path) {
			sum = sum.plus(f.Faults)
		}
	}
	return sum
}

func (f Faults) plus(o Faults) Faults {
	f.Latency += o.Latency
	if f.Status == 0 {
		f.Status, f.RetryAfter, f.MessageID = o.Status, o.RetryAfter, o.MessageID
	}
	f.Body, f.PowerLie = cmp.Or(f.Body, o.Body), cmp.Or(f.PowerLie, o.PowerLie)
	f.Members, f.Trickle = max(f.Members, o.Members), max(f.Trickle, o.Trickle)
	f.Hang, f.Drop, f.LoseReply, f.Flood = f.Hang || o.Hang, f.Drop || o.Drop, f.LoseReply || o.LoseReply, f.Flood || o.Flood
	f.Truncate, f.WrongTypes, f.RawControls = f.Truncate || o.Truncate, f.WrongTypes || o.WrongTypes, f.RawControls || o.RawControls
	f.SessionsFull, f.ForgetBoot = f.SessionsFull || o.SessionsFull, f.ForgetBoot || o.ForgetBoot
	return f
}

// Before applies the faults that do not need the request to be understood. It returns false if it
// has handled the request.
func (f Faults) Before(w http.ResponseWriter, r *http.Request, closed <-chan struct{}) bool {
	if f.Latency > 0 && !pause(r, f.Latency, closed) {
		return false
	}
	switch {
	case f.Hang:
		select {
		case <-r.Context().Done():
		case <-closed:
		}
		panic(http.ErrAbortHandler)
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		}
		a := resource.Fail(f.Status, "GeneralError", "fault")
		if f.MessageID != "" {
			a = resource.FailByID(f.Status, f.MessageID)
		}
		a.Send(w)
		return false
	case f.Body != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, f.Body)
		return false
	case f.Flood && r.Method == http.MethodGet:
		flood(w, r)
		return false
	}
	return true
}

// pause waits; false: the client or the BMC has closed the connection.
func pause(r *http.Request, d time.Duration, closed <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-closed:
	}
	return false
}

// Changes reports whether answers to a GET are changed.
func (f Faults) Changes() bool {
	return f.Truncate || f.WrongTypes || f.RawControls || f.Members > 0 || f.Trickle > 0
}

// Change returns the changed body of an answer.
func (f Faults) Change(path string, body []byte) []byte {
	if f.Members > 0 {
		body = padded(body, path, f.Members)
	}
	if f.WrongTypes {
		body = wrongTypes(body)
	}
	if f.RawControls {
		body = bytes.ReplaceAll(body, []byte(`"Name":"`), []byte("\"Name\":\"\x01a\tb\r\nc"))
	}
	if f.Truncate {
		body = body[:len(body)/2]
	}
	return body
}

// Drip sends a body byte by byte; the header of w was written.
func (f Faults) Drip(w http.ResponseWriter, r *http.Request, body []byte, closed <-chan struct{}) {
	out := http.NewResponseController(w)
	for i := range body {
		if _, err := w.Write(body[i : i+1]); err != nil || out.Flush() != nil || !pause(r, f.Trickle, closed) {
			return
		}
	}
}

// padded adds members to a collection.
func padded(body []byte, path string, members int) []byte {
	var collection map[string]any
	if json.Unmarshal(body, &collection) != nil {
		return body
	}
	have, ok := collection["Members"].([]any)
	if !ok {
		return body
	}
	for i := len(have); i < members; i++ {
		have = append(have, resource.Ref(fmt.Sprint(path, ExtraMember, i)))
	}
	collection["Members"], collection["Members@odata.count"] = have, len(have)
	out, err := json.Marshal(collection)
	if err != nil {
		return body
	}
	return out
}

// flood writes until the client closes the connection.
func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, `{"Name":"`); err != nil {
		return
	}
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = 'A'
	}
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// wrongTypes replaces strings by numbers, numbers by strings and lists by objects, except in
// properties that start with @.
func wrongTypes(text []byte) []byte {
	var v any
	if json.Unmarshal(text, &v) != nil {
		return text
	}
	out, err := json.Marshal(wrongValue(v))
	if err != nil {
		return text
	}
	return out
}

func wrongValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, e := range v {
			if !strings.HasPrefix(key, "@") {
				v[key] = wrongValue(e)
			}
		}
		return v
	case []any:
		return map[string]any{"count": len(v)}
	case string:
		return len(v)
	case bool:
		return fmt.Sprint(v)
	case float64:
		return fmt.Sprint(v)
	}
	return v
}

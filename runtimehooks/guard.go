// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package runtimehooks

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
)

const (
	// maxBody bounds a request, in bytes: what Cluster API's library admits.
	maxBody = 20 << 20
	// maxBodies bounds all requests that are there at once, in bytes: three of the largest,
	// and their last chunks.
	maxBodies = 3 * (maxBody + 2*chunk)
	// maxAnswer is how long Cluster API waits by default (R10).
	maxAnswer = 10 * time.Second
	// MaxMessage bounds a message, in bytes: it lands in a condition of the Cluster.
	MaxMessage = 1024
)

// Messages of refusals are the same for the same fault: they land in conditions, and
// one that differs each time would make Cluster API reconcile without an end (R22).
const (
	notPost      = "hooks are called by POST"
	tooLarge     = "the request is larger than 20 MiB"
	notReadable  = "the request could not be read to its end"
	busy         = "too many large requests at once; the call is made again"
	notJSON      = "the request is not one JSON object"
	notOfForm    = "the request does not have the form of its kind"
	failedInside = "the extension failed inside; the log of ingot-runtime-extension says how"
)

// newBudget is shared by all handlers of a server.
func newBudget() *semaphore.Weighted { return semaphore.NewWeighted(maxBodies) }

// guard stands before a handler of the library, which takes any method, ignores
// apiVersion and kind, and dies of a panic.
type guard struct {
	envelope
	next    http.Handler
	budget  *semaphore.Weighted
	metrics *Metrics
	log     logr.Logger
}

// ServeHTTP answers one call.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	limit := answerWithin(r)
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	code, answer := g.answer(w, r.WithContext(ctx))
	data, err := json.Marshal(answer)
	if err != nil { // all values of it were JSON
		code, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(code)
	_, _ = w.Write(data)
	g.metrics.observe(g.hook, outcomeOf(answer), time.Since(began))
}

// answerWithin is how long an answer may take: less than the caller waits, which it
// says in its query.
func answerWithin(r *http.Request) time.Duration {
	limit := maxAnswer
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		limit = min(limit, asked)
	}
	return limit * 9 / 10
}

// response is any response of a hook, by its fields.
type response map[string]any

func (g *guard) answer(w http.ResponseWriter, r *http.Request) (int, response) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, g.failure(notPost)
	}
	taken := &share{of: g.budget}
	defer taken.release()
	body, message := read(w, r, taken)
	if message == "" {
		body, message = g.check(r.Context(), body)
	}
	if message != "" {
		return http.StatusOK, g.failure(message)
	}
	return http.StatusOK, g.call(r, body)
}

// share is what one request has of the budget: as much as has come, so that who is slow
// to send, or only says how much will come, keeps nobody out.
type share struct {
	of    *semaphore.Weighted
	bytes int64
}

// errBusy: what comes does not fit the budget.
var errBusy = errors.New(busy)

// hold takes room for what is about to come; it waits for nobody, since those who have
// room might wait for more too.
func (s *share) hold(n int64) error {
	if !s.of.TryAcquire(n) {
		return errBusy
	}
	s.bytes += n
	return nil
}

func (s *share) release() { s.of.Release(s.bytes) }

// within is the part of the time for an answer in which the request is to have come.
const within = 3

// chunk is how much of a request is read at a time, in bytes.
const chunk = 64 << 10

// read takes in the body of a request, or says why not.
func read(w http.ResponseWriter, r *http.Request, taken *share) (body []byte, message string) {
	control := http.NewResponseController(w)
	if deadline, ok := r.Context().Deadline(); ok {
		_ = control.SetReadDeadline(time.Now().Add(time.Until(deadline) / within)) // a server without deadlines still has the bound
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBody), taken)
	_ = control.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, tooLarge
	case errors.Is(err, errBusy):
		return nil, busy
	case err != nil:
		return nil, notReadable
	}
	return body, ""
}

func readAll(from io.Reader, taken *share) ([]byte, error) {
	var body bytes.Buffer
	for {
		if err := taken.hold(chunk); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&body, from, chunk)
		if errors.Is(err, io.EOF) {
			return body.Bytes(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("after %d more bytes: %w", n, err)
		}
	}
}

// check returns the request as the handlers read it, or a message about what is wrong with
// its envelope or its Cluster.
func (g *guard) check(ctx context.Context, body []byte) (readable []byte, message string) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil || object == nil {
		return nil, notJSON
	}
	var asked metav1.TypeMeta
	if json.Unmarshal(object["apiVersion"], &asked.APIVersion) != nil || asked.APIVersion != g.apiVersion {
		return nil, fmt.Sprintf("apiVersion must be %s", g.apiVersion)
	}
	if json.Unmarshal(object["kind"], &asked.Kind) != nil || asked.Kind != g.request {
		return nil, fmt.Sprintf("kind must be %s here", g.request)
	}
	if !g.hasCluster {
		return body, ""
	}
	cluster, message := hubCluster(ctx, object["cluster"])
	if message != "" {
		return nil, message
	}
	object["cluster"] = cluster
	readable, err := json.Marshal(object)
	if err != nil {
		return nil, notOfForm
	}
	return readable, ""
}

// call lets the library answer, and survives it.
func (g *guard) call(r *http.Request, body []byte) (answer response) {
	defer func() {
		if fault := recover(); fault != nil {
			g.log.Error(fmt.Errorf("%v", fault), "A handler panicked", "hook", g.hook, "stack", string(debug.Stack()))
			answer = g.failure(failedInside)
		}
	}()
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	taken := &taken{header: http.Header{}}
	g.next.ServeHTTP(taken, r)
	if taken.code != http.StatusOK || json.Unmarshal(taken.body.Bytes(), &answer) != nil || answer == nil {
		// Not what the handler says, but what the library says that it cannot marshal.
		g.log.Error(errors.New("no answer"), "A handler gave no answer", "hook", g.hook, "code", taken.code)
		return g.failure(failedInside)
	}
	if message, _ := answer["message"].(string); strings.HasPrefix(message, undecoded) {
		g.log.Error(errors.New(message), "A request was not decoded", "hook", g.hook)
		return g.failure(notOfForm) // the decoder repeats values of the request
	}
	answer.bound()
	return g.named(answer)
}

// undecoded begins what the library says of a body that its decoder refuses.
const undecoded = "error unmarshalling request:"

func (g *guard) failure(message string) response {
	return g.named(response{"status": string(runtimehooksv1.ResponseStatusFailure), "message": message})
}

// named completes what the library leaves out: apiVersion and kind (L02); and puts
// the handlers of a discovery, which it has in a map, in an order that stays (R19).
func (g *guard) named(answer response) response {
	answer["apiVersion"], answer["kind"] = g.apiVersion, g.envelope.response
	if handlers, ok := answer["handlers"].([]any); ok {
		slices.SortFunc(handlers, func(a, b any) int { return cmp.Compare(nameOf(a), nameOf(b)) })
	}
	return answer
}

func nameOf(handler any) string {
	object, _ := handler.(map[string]any)
	name, _ := object["name"].(string)
	return name
}

// bound cuts a message that would not fit a condition.
func (r response) bound() {
	if message, ok := r["message"].(string); ok {
		r["message"] = bound(message)
	}
}

// bound cuts a text to MaxMessage bytes, between characters.
func bound(text string) string {
	const more = "…"
	if len(text) <= MaxMessage {
		return text
	}
	cut := MaxMessage - len(more)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// taken is what a handler of the library writes.
type taken struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header of the answer, which nobody reads.
func (t *taken) Header() http.Header { return t.header }

// WriteHeader takes the status.
func (t *taken) WriteHeader(code int) { t.code = cmp.Or(t.code, code) }

// Write takes a part of the body.
func (t *taken) Write(data []byte) (int, error) {
	t.code = cmp.Or(t.code, http.StatusOK)
	return t.body.Write(data)
}

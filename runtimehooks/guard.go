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
	// maxBody limits a request, in bytes. It is the limit of Cluster API's library.
	maxBody = 20 << 20
	// maxBodies limits all requests in memory, in bytes: three of maxBody, with their last chunks.
	maxBodies = 3 * (maxBody + 2*chunk)
	// maxAnswer is Cluster API's default timeout (R10).
	maxAnswer = 10 * time.Second
	// MaxMessage limits a message, in bytes. Cluster API writes it into a condition of the Cluster.
	MaxMessage = 1024
)

// Messages are stable for the same fault: Cluster API writes them into conditions, and a changing
// message would cause endless reconciles (R22).
const (
	notPost       = "hooks require the method POST"
	tooLarge      = "the request is larger than 20 MiB"
	notReadable   = "the request body did not arrive completely"
	busy          = "too many large concurrent requests; Cluster API retries the call"
	notJSON       = "the request is not a single JSON object"
	notOfForm     = "the request does not match the schema of its kind"
	internalError = "internal error; see the log of ingot-runtime-extension"
)

// newBudget returns the memory budget that all handlers of a server share.
func newBudget() *semaphore.Weighted { return semaphore.NewWeighted(maxBodies) }

// guard protects a handler of the library, which accepts any method, ignores apiVersion and kind,
// and does not recover from panics.
type guard struct {
	envelope
	next    http.Handler
	budget  *semaphore.Weighted
	metrics *Metrics
	log     logr.Logger
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout(r))
	defer cancel()
	code, answer := g.answer(w, r.WithContext(ctx))
	data, err := json.Marshal(answer)
	if err != nil { // impossible: answer consists of JSON values
		code, data = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(code)
	_, _ = w.Write(data)
	g.metrics.observe(g.hook, outcomeOf(answer), time.Since(start))
}

// answerTimeout returns the time limit of an answer: 90 % of the caller's timeout, which is in the
// query.
func answerTimeout(r *http.Request) time.Duration {
	limit := maxAnswer
	if asked, err := time.ParseDuration(r.URL.Query().Get("timeout")); err == nil && asked > 0 {
		limit = min(limit, asked)
	}
	return limit * 9 / 10
}

// response is a response of any hook, by field name.
type response map[string]any

func (g *guard) answer(w http.ResponseWriter, r *http.Request) (int, response) {
	if r.Method != http.MethodPost {
		return http.StatusMethodNotAllowed, g.failure(notPost)
	}
	reserved := &share{of: g.budget}
	defer reserved.release()
	body, message := read(w, r, reserved)
	if message == "" {
		body, message = g.check(r.Context(), body)
	}
	if message != "" {
		return http.StatusOK, g.failure(message)
	}
	return http.StatusOK, g.call(r, body)
}

// share is the part of the budget that one request uses. It grows as the body arrives, so that
// slow clients and clients that only announce a large body block no others.
type share struct {
	of    *semaphore.Weighted
	bytes int64
}

// errBusy is returned if a request exceeds the budget.
var errBusy = errors.New(busy)

// grow adds n bytes to the share. It never waits, because requests that hold a share could wait for
// each other.
func (s *share) grow(n int64) error {
	if !s.of.TryAcquire(n) {
		return errBusy
	}
	s.bytes += n
	return nil
}

func (s *share) release() { s.of.Release(s.bytes) }

// readFraction is the part of the answer timeout within which the request must arrive: a third.
const readFraction = 3

// chunk is the size of one read, in bytes.
const chunk = 64 << 10

// read returns the body of a request, or an error message.
func read(w http.ResponseWriter, r *http.Request, reserved *share) (body []byte, message string) {
	control := http.NewResponseController(w)
	if deadline, ok := r.Context().Deadline(); ok {
		_ = control.SetReadDeadline(time.Now().Add(time.Until(deadline) / readFraction)) // the size limit also applies without deadlines
	}
	body, err := readAll(http.MaxBytesReader(w, r.Body, maxBody), reserved)
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

func readAll(from io.Reader, reserved *share) ([]byte, error) {
	var body bytes.Buffer
	for {
		if err := reserved.grow(chunk); err != nil {
			return nil, err
		}
		n, err := io.CopyN(&body, from, chunk)
		if errors.Is(err, io.EOF) {
			return body.Bytes(), nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the request after %d more bytes: %w", n, err)
		}
	}
}

// check validates the envelope and the Cluster of a request. It returns the request with a v1beta2
// Cluster, or an error message.
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
		return nil, fmt.Sprintf("kind must be %s", g.request)
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

// call passes the request to the library, and recovers from panics.
func (g *guard) call(r *http.Request, body []byte) (answer response) {
	defer func() {
		if fault := recover(); fault != nil {
			g.log.Error(fmt.Errorf("%v", fault), "Hook handler panicked", "hook", g.hook, "stack", string(debug.Stack()))
			answer = g.failure(internalError)
		}
	}()
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	written := &recorder{header: http.Header{}}
	g.next.ServeHTTP(written, r)
	if written.code != http.StatusOK || json.Unmarshal(written.body.Bytes(), &answer) != nil || answer == nil {
		g.log.Error(errors.New("no valid response"), "Hook handler returned no valid response", "hook", g.hook, "code", written.code)
		return g.failure(internalError)
	}
	if message, _ := answer["message"].(string); strings.HasPrefix(message, undecoded) {
		g.log.Error(errors.New(message), "Failed to decode a hook request", "hook", g.hook)
		return g.failure(notOfForm) // the decoder's error contains values of the request
	}
	if message, ok := answer["message"].(string); ok {
		answer["message"] = truncate(message)
	}
	return g.complete(answer)
}

// undecoded is the prefix of the library's message about a body that it cannot decode.
const undecoded = "error unmarshalling request:"

func (g *guard) failure(message string) response {
	return g.complete(response{"status": string(runtimehooksv1.ResponseStatusFailure), "message": message})
}

// complete sets apiVersion and kind, which the library omits (L02), and sorts the handlers of a
// discovery, which the library keeps in a map (R19).
func (g *guard) complete(answer response) response {
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

// truncate shortens a text to MaxMessage bytes, between characters.
func truncate(text string) string {
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

// recorder stores the response of a library handler.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (t *recorder) Header() http.Header { return t.header }

// WriteHeader implements http.ResponseWriter.
func (t *recorder) WriteHeader(code int) { t.code = cmp.Or(t.code, code) }

// Write implements http.ResponseWriter.
func (t *recorder) Write(data []byte) (int, error) {
	t.code = cmp.Or(t.code, http.StatusOK)
	return t.body.Write(data)
}

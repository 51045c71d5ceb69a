// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// Path is where a manager takes boots, beside the agent API.
const Path = "/boot/v1/log"

const (
	// sealHeader carries the seal of the time in atHeader and of the SHA-256 of the body
	// in sumHeader: who has not the key has nothing of a body read.
	sealHeader = "Ingot-Seal"
	atHeader   = "Ingot-At"
	sumHeader  = "Ingot-SHA256"
	// maxBody bounds a batch, in bytes.
	maxBody = 1 << 20
	// maxSkew is how far the clocks may be apart, and how long what somebody recorded
	// could be sent again: it would say the same again.
	maxSkew = 10 * time.Minute
	// callTimeout bounds one call.
	callTimeout = 30 * time.Second
	// maxAtOnce bounds the batches that are worked on: boot servers try again.
	maxAtOnce = 4
)

// batch is the body of a request.
type batch struct {
	Boots []bootlog.Boot `json:"boots"`
}

// sealed is what the seal covers: never what another seal of the same key does.
func sealed(at, sum string) []byte { return []byte("ingot boot log\n" + at + "\n" + sum) }

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Handler takes boots from boot servers. It must not be copied.
type Handler struct {
	// Record keeps them.
	Record func(context.Context, []bootlog.Boot) error
	// Sealed says whether the key that boot servers share sealed a message.
	Sealed func(message, sum []byte) bool
	Clock  clock.PassiveClock
	Log    logr.Logger

	busy atomic.Int32
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	if why := h.refuses(r.Header); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	defer h.busy.Add(-1)
	if h.busy.Add(1) > maxAtOnce {
		http.Error(w, "too much to do", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request is too large or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	if sumOf(body) != r.Header.Get(sumHeader) {
		http.Error(w, "not what was sealed", http.StatusForbidden)
		return
	}
	var in batch
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, "not the JSON expected", http.StatusBadRequest)
		return
	}
	if err := h.Record(r.Context(), in.Boots); err != nil {
		h.Log.Error(err, "Could not keep boots of hosts")
		http.Error(w, "not all could be kept", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuses says why a request is not a boot server's, before its body is read.
func (h *Handler) refuses(header http.Header) string {
	stamp := header.Get(atHeader)
	seal, err := base64.StdEncoding.DecodeString(header.Get(sealHeader))
	if err != nil || !h.Sealed(sealed(stamp, header.Get(sumHeader)), seal) {
		return "not sealed by a boot server of this manager"
	}
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || h.Clock.Since(at).Abs() > maxSkew {
		return "sealed too long ago, or clocks differ"
	}
	return ""
}

// errPin: the manager's key is none of those pinned.
var errPin = errors.New("the manager's TLS key is not the pinned one")

// Sender hands boots to a manager. Close it at the end.
type Sender struct {
	seal func([]byte) []byte
	now  func() time.Time
	http *http.Client
}

// SenderConfig configures a Sender. All fields are needed.
type SenderConfig struct {
	// Dial connects to the agent API.
	Dial func(ctx context.Context) (net.Conn, error)
	// Pins of its key.
	Pins []token.Pin
	// Seal authenticates a message by the key that the manager has too.
	Seal func(message []byte) []byte
	Now  func() time.Time
}

// NewSender makes a Sender.
func NewSender(c SenderConfig) *Sender {
	return &Sender{seal: c.Seal, now: c.Now, http: &http.Client{
		Timeout: callTimeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS13,
				// The pin is checked instead, as agents do; clocks and names do not count.
				InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks the pin
				VerifyConnection:   func(state tls.ConnectionState) error { return verify(state, c.Pins) },
			},
			MaxIdleConns: 1, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func verify(state tls.ConnectionState, pins []token.Pin) error {
	if len(state.PeerCertificates) == 0 {
		return errPin
	}
	got := token.PinOf(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
	for _, pin := range pins {
		if subtle.ConstantTimeCompare([]byte(got), []byte(pin)) == 1 {
			return nil
		}
	}
	return errPin
}

// Close lets the connection go.
func (s *Sender) Close() { s.http.CloseIdleConnections() }

// Send hands boots over. It is a bootlog.Options.Deliver.
func (s *Sender) Send(ctx context.Context, boots []bootlog.Boot) error {
	body, err := json.Marshal(batch{Boots: boots})
	if err != nil {
		return fmt.Errorf("encode boots: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://ingot-agent-api"+Path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("hand boots over: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	at, sum := s.now().UTC().Format(time.RFC3339Nano), sumOf(body)
	req.Header.Set(atHeader, at)
	req.Header.Set(sumHeader, sum)
	req.Header.Set(sealHeader, base64.StdEncoding.EncodeToString(s.seal(sealed(at, sum))))
	res, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("hand boots over: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("hand boots over: the manager answered %d", res.StatusCode)
	}
	return nil
}

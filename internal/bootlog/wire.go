// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"bytes"
	"context"
	"crypto/sha256"

	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// Path is the path to which boot servers send boots, on the listener of the agent API.
const Path = "/boot/v1/log"

const (
	// sealHeader carries the seal of atHeader (the time) and sumHeader (the SHA-256 of the body):
	// the body of a client without the key is not read.
	sealHeader = "Ingot-Seal"
	atHeader   = "Ingot-At"
	sumHeader  = "Ingot-SHA256"
	// maxBody bounds a batch, in bytes.
	maxBody = 1 << 20
	// maxSkew is the maximum difference of the clocks. A recorded request can be repeated for so
	// long, without effect.
	maxSkew = 10 * time.Minute
	// callTimeout bounds one call.
	callTimeout = 30 * time.Second
	// maxAtOnce bounds the batches that are processed at once; boot servers retry.
	maxAtOnce = 4
)

// batch is the body of a request.
type batch struct {
	Boots []bootlog.Boot `json:"boots"`
}

// sealed returns the sealed message. Its prefix separates it from other messages sealed with the key.
func sealed(at, sum string) []byte { return []byte("ingot boot log\n" + at + "\n" + sum) }

func sumOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Handler receives boots from boot servers. It must not be copied.
type Handler struct {
	// Record stores the boots.
	Record func(context.Context, []bootlog.Boot) error
	// Sealed reports whether a message was sealed with the key that boot servers share.
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
	if reason := h.checkSeal(r.Header); reason != "" {
		http.Error(w, reason, http.StatusForbidden)
		return
	}
	defer h.busy.Add(-1)
	if h.busy.Add(1) > maxAtOnce {
		http.Error(w, "too many requests", http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request is too large or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	if sumOf(body) != r.Header.Get(sumHeader) {
		http.Error(w, "the body differs from the sealed one", http.StatusForbidden)
		return
	}
	var in batch
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, "not the JSON expected", http.StatusBadRequest)
		return
	}
	if err := h.Record(r.Context(), in.Boots); err != nil {
		h.Log.Error(err, "Could not record boots of hosts")
		http.Error(w, "not all boots could be recorded", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// checkSeal returns why a request is not from a boot server, or "".
func (h *Handler) checkSeal(header http.Header) string {
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

// errPin means that the manager's key is not pinned.
var errPin = errors.New("the manager's TLS key is not the pinned one")

// Sender sends boots to a manager. Close it at the end.
type Sender struct {
	seal func([]byte) []byte
	now  func() time.Time
	http *http.Client
}

// SenderConfig configures a Sender. All fields are required.
type SenderConfig struct {
	// Dial connects to the agent API.
	Dial func(ctx context.Context) (net.Conn, error)
	// Pins are the pins of the agent API's keys.
	Pins []token.Pin
	// Seal authenticates a message with the key that the manager has too.
	Seal func(message []byte) []byte
	Now  func() time.Time
}

// NewSender returns a Sender.
func NewSender(c SenderConfig) *Sender {
	return &Sender{seal: c.Seal, now: c.Now, http: &http.Client{
		Timeout: callTimeout,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS13,
				// As for agents, only the pin is checked, not names or dates.
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
	if slices.Contains(pins, got) { // pins are public: no constant time needed
		return nil
	}
	return errPin
}

// Close closes idle connections.
func (s *Sender) Close() { s.http.CloseIdleConnections() }

// Send sends boots. It is a bootlog.Options.Deliver.
func (s *Sender) Send(ctx context.Context, boots []bootlog.Boot) error {
	body, err := json.Marshal(batch{Boots: boots})
	if err != nil {
		return fmt.Errorf("encode boots: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://ingot-agent-api"+Path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send boots: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	at, sum := s.now().UTC().Format(time.RFC3339Nano), sumOf(body)
	req.Header.Set(atHeader, at)
	req.Header.Set(sumHeader, sum)
	req.Header.Set(sealHeader, base64.StdEncoding.EncodeToString(s.seal(sealed(at, sum))))
	res, err := s.http.Do(req)
	if err != nil {
		return fmt.Errorf("send boots: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
	if res.StatusCode != http.StatusNoContent {
		return fmt.Errorf("send boots: the manager returned status %d", res.StatusCode)
	}
	return nil
}

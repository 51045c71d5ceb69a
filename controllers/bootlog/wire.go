// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/ingot-metal/ingot/controllers/token"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// Path is where a manager takes boots, beside the agent API.
const Path = "/boot/v1/log"

const (
	// sealHeader carries the seal of the body.
	sealHeader = "Ingot-Seal"
	// maxBody bounds a batch, in bytes.
	maxBody = 1 << 20
	// maxSkew is how far the clocks may be apart, and how long what somebody recorded
	// could be sent again: it would say the same again.
	maxSkew = 10 * time.Minute
	// callTimeout bounds one call.
	callTimeout = 30 * time.Second
)

// batch is the body of a request.
type batch struct {
	At    time.Time      `json:"at"`
	Boots []bootlog.Boot `json:"boots"`
}

// sealed is what the seal covers: never what another seal of the same key does.
func sealed(body []byte) []byte { return append([]byte("ingot boot log\n"), body...) }

// Handler takes boots from boot servers.
type Handler struct {
	// Record keeps them.
	Record func(context.Context, []bootlog.Boot) error
	// Sealed says whether the key that boot servers share sealed a message.
	Sealed func(message, sum []byte) bool
	Clock  clock.PassiveClock
	Log    logr.Logger
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "only POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "the request is too large or was cut off", http.StatusRequestEntityTooLarge)
		return
	}
	sum, err := base64.StdEncoding.DecodeString(r.Header.Get(sealHeader))
	if err != nil || !h.Sealed(sealed(body), sum) {
		http.Error(w, "not sealed by a boot server of this manager", http.StatusForbidden)
		return
	}
	var in batch
	if err := json.Unmarshal(body, &in); err != nil {
		http.Error(w, "not the JSON expected", http.StatusBadRequest)
		return
	}
	if age := h.Clock.Since(in.At); age.Abs() > maxSkew {
		http.Error(w, "sealed too long ago, or clocks differ", http.StatusForbidden)
		return
	}
	if err := h.Record(r.Context(), in.Boots); err != nil {
		h.Log.Error(err, "Could not keep boots of hosts")
		http.Error(w, "not all could be kept", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
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
				InsecureSkipVerify: true, //nolint:gosec
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
	body, err := json.Marshal(batch{At: s.now(), Boots: boots})
	if err != nil {
		return fmt.Errorf("encode boots: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://ingot-agent-api"+Path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("hand boots over: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(sealHeader, base64.StdEncoding.EncodeToString(s.seal(sealed(body))))
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

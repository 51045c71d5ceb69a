// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agenttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// Fault replaces the answer to a call.
type Fault struct {
	// Refuse is sent as the body of a 409.
	Refuse *agentapi.Error
	// Drop executes the call but closes the connection without an answer.
	Drop bool
	// Status is sent with a body that is no agentapi.Error.
	Status int
}

// Manager is a fake manager. Set the exported fields before Start.
type Manager struct {
	Token     agentapi.Sensitive
	Order     agentapi.Order
	Bootstrap agentapi.Bootstrap
	Live      agentapi.LiveBoot
	// Action answers a successful report. A failed one gets PowerOff.
	Action   agentapi.Action
	Interval time.Duration
	// Now is the time in a Session. Zero: the present.
	Now time.Time
	// Faults returns the fault of the n-th call (from 1) of a path; nil: none.
	Faults func(path string, n int) *Fault
	// StopAt is the step at which the reply to Progress stops the agent.
	StopAt     agentapi.Step
	OnProgress func(agentapi.Progress)

	certificate tls.Certificate

	mu       sync.Mutex
	calls    []string
	counts   map[string]int
	keys     []string
	sessions []agentapi.SessionRequest
	progress []agentapi.Progress
	reports  []agentapi.Report
}

// NewManager makes a manager with its own key. Its certificate has expired, since only the pin
// counts (I15).
func NewManager() *Manager {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "manager"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return &Manager{
		Token: "token-canary", Action: agentapi.PowerOff, Interval: time.Millisecond,
		counts:      map[string]int{},
		certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
}

// Pin returns the pin of the manager's key in the form of the kernel argument.
func (m *Manager) Pin() string {
	cert, err := x509.ParseCertificate(m.certificate.Certificate[0])
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256/" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// Start serves on a loopback port until the test ends, and returns host:port.
func (m *Manager) Start(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(m.serve), ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{m.certificate}, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: tls.VersionTLS13,
		}))
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return l.Addr().String()
}

// Calls returns the paths of all calls in sequence, without progress.
func (m *Manager) Calls() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.calls), func(p string) bool { return p == agentapi.PathProgress })
}

// Keys returns the distinct client keys seen.
func (m *Manager) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(m.keys)))
}

func (m *Manager) Sessions() []agentapi.SessionRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sessions)
}

func (m *Manager) Progress() []agentapi.Progress {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.progress)
}

func (m *Manager) Reports() []agentapi.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.reports)
}

func (m *Manager) serve(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	m.mu.Lock()
	m.calls = append(m.calls, path)
	m.counts[path]++
	n := m.counts[path]
	key := sha256.Sum256(r.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo)
	m.keys = append(m.keys, string(key[:]))
	m.mu.Unlock()
	if r.Method != http.MethodPost || r.Header.Get(agentapi.TokenHeader) != "Bearer "+m.Token.Reveal() {
		refuse(w, &agentapi.Error{Reason: agentapi.ReasonTokenInvalid, Message: "no"})
		return
	}
	var fault *Fault
	if m.Faults != nil {
		fault = m.Faults(path, n)
	}
	switch {
	case fault != nil && fault.Refuse != nil:
		refuse(w, fault.Refuse)
		return
	case fault != nil && fault.Status != 0:
		http.Error(w, "<html>proxy</html>", fault.Status)
		return
	}
	answer, err := m.answer(path, r)
	if err != nil {
		refuse(w, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: err.Error()})
		return
	}
	if fault != nil && fault.Drop {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func refuse(w http.ResponseWriter, e *agentapi.Error) {
	w.WriteHeader(http.StatusConflict)
	_ = json.NewEncoder(w).Encode(e)
}

func (m *Manager) answer(path string, r *http.Request) (any, error) {
	switch path {
	case agentapi.PathSession:
		request, err := decode[agentapi.SessionRequest](r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sessions = append(m.sessions, request)
		now := m.Now
		if now.IsZero() {
			now = time.Now()
		}
		return agentapi.Session{Now: now, Host: "lab/h1", ProgressInterval: agentapi.Duration(m.Interval)}, err
	case agentapi.PathOrder:
		_, err := decode[agentapi.OrderRequest](r)
		return m.Order, err
	case agentapi.PathProgress:
		now, err := decode[agentapi.Progress](r)
		m.mu.Lock()
		m.progress = append(m.progress, now)
		m.mu.Unlock()
		if m.OnProgress != nil {
			m.OnProgress(now)
		}
		return agentapi.ProgressReply{Stop: m.StopAt != "" && now.Step == m.StopAt}, err
	case agentapi.PathBootstrap:
		_, err := decode[agentapi.BootstrapRequest](r)
		return m.Bootstrap, err
	case agentapi.PathLive:
		_, err := decode[agentapi.LiveRequest](r)
		return m.Live, err
	case agentapi.PathReport:
		report, err := decode[agentapi.Report](r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.reports = append(m.reports, report)
		if report.Outcome != agentapi.Succeeded {
			return agentapi.Acknowledgement{Action: agentapi.PowerOff}, err
		}
		return agentapi.Acknowledgement{Action: m.Action}, err
	}
	return nil, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "no such path"}
}

func decode[T any](r *http.Request) (T, error) {
	var v T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	return v, err
}

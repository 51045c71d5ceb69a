// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// Manager is a fake of the agent API for a whole rack. A token names a server;
// each server has one order at a time.
type Manager struct {
	pin string
	// Drop, where not nil, is asked before each answer: true does the work and
	// loses the answer.
	Drop func(path string) bool

	mu    sync.Mutex
	hosts map[string]*managed
}

// managed is what the manager knows of a server.
type managed struct {
	order       agentapi.Order
	provisioned func()
	sessions    []agentapi.SessionRequest
	progress    []agentapi.Step
	reports     []agentapi.Report
	booted      []agentapi.Booted
	// over is the boot whose install was acknowledged: another one has no order.
	over string
}

// newManager makes a manager that is reached by way of each boot server.
func newManager(t testing.TB, listeners []net.Listener) *Manager {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)} // clocks lie
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	m := &Manager{
		pin: "sha256/" + base64.RawURLEncoding.EncodeToString(sum[:]), hosts: map[string]*managed{},
	}
	s := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	var serving sync.WaitGroup
	for _, l := range listeners {
		serving.Go(func() {
			_ = s.Serve(tls.NewListener(l, &tls.Config{
				Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
				ClientAuth:   tls.RequestClientCert, MinVersion: tls.VersionTLS13,
			}))
		})
	}
	t.Cleanup(func() { _ = s.Close(); serving.Wait() })
	return m
}

// Pin of the manager's key.
func (m *Manager) Pin() string { return m.pin }

// Booted lists what a server's installed system reported.
func (m *Manager) Booted(serial string) []agentapi.Booted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]agentapi.Booted(nil), m.hosts[serial].booted...)
}

// Reports lists what a server's agent reported.
func (m *Manager) Reports(serial string) []agentapi.Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]agentapi.Report(nil), m.hosts[serial].reports...)
}

// Sessions lists the session requests of a server.
func (m *Manager) Sessions(serial string) []agentapi.SessionRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]agentapi.SessionRequest(nil), m.hosts[serial].sessions...)
}

// Steps lists the steps in a server's progress calls.
func (m *Manager) Steps(serial string) []agentapi.Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]agentapi.Step(nil), m.hosts[serial].progress...)
}

func (m *Manager) onProvisioned(serial string, f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[serial] = &managed{provisioned: f}
}

func (m *Manager) order(serial string, o agentapi.Order) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[serial].order, m.hosts[serial].over = o, ""
}

func (m *Manager) token(serial string) string { return "token." + serial }

// ServeHTTP implements http.Handler.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	serial, ok := strings.CutPrefix(r.Header.Get(agentapi.TokenHeader), "Bearer token.")
	m.mu.Lock()
	h := m.hosts[serial]
	m.mu.Unlock()
	if !ok || h == nil || r.Method != http.MethodPost {
		refuse(w, agentapi.ReasonTokenInvalid)
		return
	}
	answer, err := m.answer(serial, h, r)
	if err != nil {
		refuse(w, agentapi.ReasonBadRequest)
		return
	}
	if over, refused := answer.(agentapi.Error); refused {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(over)
		return
	}
	if m.Drop != nil && m.Drop(r.URL.Path) {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(answer) // the agent may have lost its power
}

func (m *Manager) answer(serial string, h *managed, r *http.Request) (answer any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := json.NewDecoder(io.LimitReader(r.Body, agentapi.MaxRequestBytes))
	switch r.URL.Path {
	case agentapi.PathSession:
		if h.sessions, err = appendDecoded(h.sessions, in); err != nil {
			return nil, err
		}
		if h.over != "" && h.over != h.sessions[len(h.sessions)-1].BootID {
			// A live read of the host says that nothing waits for this boot (I5).
			return agentapi.Error{Reason: agentapi.ReasonOrderGone, Message: "installed already", Action: agentapi.BootDisk}, nil
		}
		return agentapi.Session{Now: time.Now(), Host: "lab/" + serial, ProgressInterval: agentapi.Duration(time.Millisecond)}, err
	case agentapi.PathOrder:
		return h.order, nil
	case agentapi.PathProgress:
		var p agentapi.Progress
		err = in.Decode(&p)
		h.progress = append(h.progress, p.Step)
		return agentapi.ProgressReply{}, err
	case agentapi.PathBootstrap:
		return m.bootstrap(serial, r.Host, h.order), nil
	case agentapi.PathReport:
		if h.reports, err = appendDecoded(h.reports, in); err != nil {
			return nil, err
		}
		last := h.reports[len(h.reports)-1]
		if last.Outcome == agentapi.Succeeded && h.order.Kind == agentapi.Install {
			// The write state=Provisioned changes the boot plan, and comes before the
			// acknowledgement (I4).
			h.provisioned()
			h.over = h.sessions[len(h.sessions)-1].BootID
			return agentapi.Acknowledgement{Action: agentapi.BootDisk}, nil
		}
		return agentapi.Acknowledgement{Action: agentapi.PowerOff}, nil
	case agentapi.PathBooted:
		h.booted, err = appendDecoded(h.booted, in)
		return agentapi.BootedReply{Accepted: true}, err
	}
	return nil, fmt.Errorf("no path %s", r.URL.Path)
}

// bootstrap is what a first boot gets: names as the manager's own will have them. The
// system reports to where its agent came (decision 0099).
func (m *Manager) bootstrap(serial, host string, o agentapi.Order) agentapi.Bootstrap {
	return agentapi.Bootstrap{
		UserData: agentapi.Sensitive("#cloud-config\n# " + Canary + "\n"),
		MetaData: fmt.Sprintf("instance-id: %s-%d\nlocal-hostname: node-%s\nprovider_id: 'ingot://lab/%s/%s'\n",
			o.InstanceID, o.Attempt, serial, serial, o.InstanceID),
		VendorData: agentapi.Sensitive(fmt.Sprintf("#!/bin/sh\nINGOT_BOOTED_URL='https://%s%s'\nINGOT_BOOTED_TOKEN=%s\nINGOT_BOOTED_PIN=%s\nINGOT_INSTANCE_ID=%s\necho\n",
			host, agentapi.PathBooted, m.token(serial), m.Pin(), o.InstanceID)),
	}
}

func appendDecoded[T any](list []T, in *json.Decoder) ([]T, error) {
	var v T
	if err := in.Decode(&v); err != nil {
		return list, err
	}
	return append(list, v), nil
}

func refuse(w http.ResponseWriter, reason agentapi.Reason) {
	w.WriteHeader(http.StatusForbidden)
	_ = json.NewEncoder(w).Encode(agentapi.Error{Reason: reason, Message: "refused"})
}

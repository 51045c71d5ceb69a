// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"
)

// DefaultMaxSessions is what iDRAC allows (field notes).
const DefaultMaxSessions = 8

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// System is what the BMC tells of the server.
type System struct {
	// UUID as SMBIOS has it; Redfish shows it in upper case, as many BMCs do.
	UUID, Serial, Manufacturer, Model string
	// MACs of the network interfaces.
	MACs        []string
	Cores       int
	MemoryBytes int64
	// BMCFirmware and BMCUUID identify the manager.
	BMCFirmware, BMCUUID string
}

// Config describes one BMC.
type Config struct {
	// Authority signs the certificate. Required.
	Authority *Authority
	// Machine is the server. Required.
	Machine Machine
	// Listener takes plain TCP connections; TLS is the BMC's own. Nil listens on
	// a free port of 127.0.0.1. The BMC closes it.
	Listener net.Listener
	// Username and Password of the only account. Required.
	Username, Password string
	System             System
	Quirks             Quirks
	// MaxSessions that may be open; 0 means DefaultMaxSessions.
	MaxSessions int
	// MaxTLS bounds the TLS version; 0: the newest.
	MaxTLS uint16
}

// Write is one request that was not a read.
type Write struct {
	At           time.Time
	Method, Path string
	// Action says what it was about: "Reset ForceOff", "Boot Once Pxe UEFI",
	// "Login", "Logout"; empty when it was not understood.
	Action string
	// Status is what was answered, or would have been (Faults.LoseReply); 0 when
	// the request was never dealt with (Faults.Hang).
	Status int
}

// BMC is a running emulator. It is safe for concurrent use.
type BMC struct {
	cfg      Config
	listener net.Listener
	server   *http.Server
	done     chan struct{}
	closed   chan struct{}
	close    sync.Once

	// handlers counts the requests in progress; Close waits for them.
	handlers sync.WaitGroup

	mu         sync.Mutex
	stopped    bool
	faults     Faults
	stalePower bool // the state that Stale tells
	sessions   map[string]string
	lastID     int
	opened     int
	peak       int
	writes     []Write
	reads      int
	// etag counts changes of the system resource.
	etag int
}

// Start starts a BMC. Close stops it.
func Start(cfg Config) (*BMC, error) {
	if cfg.Authority == nil || cfg.Machine == nil || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("start BMC: authority, machine, username and password are required")
	}
	if cfg.MaxSessions == 0 {
		cfg.MaxSessions = DefaultMaxSessions
	}
	if cfg.Quirks.SystemID == "" {
		cfg.Quirks.SystemID = "1"
	}
	l := cfg.Listener
	if l == nil {
		var err error
		if l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start BMC: %w", err)
		}
	}
	b := &BMC{
		cfg: cfg, listener: l, done: make(chan struct{}), closed: make(chan struct{}),
		sessions: map[string]string{},
	}
	b.server = &http.Server{
		Handler:           b,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{cfg.Authority.leaf},
			MinVersion:   tls.VersionTLS10, // old BMCs speak nothing newer: the client has to refuse
			MaxVersion:   cfg.MaxTLS,
			NextProtos:   []string{"http/1.1"},
		},
		// What goes wrong in a handshake is the client's to tell.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() {
		defer close(b.done)
		_ = b.server.ServeTLS(l, "", "") // ends with Close
	}()
	return b, nil
}

// Address is redfish://host:port.
func (b *BMC) Address() string { return "redfish://" + b.listener.Addr().String() }

// SystemPath is the @odata.id of the system.
func (b *BMC) SystemPath() string { return "/redfish/v1/Systems/" + b.cfg.Quirks.SystemID }

// Close stops the BMC and breaks its connections.
func (b *BMC) Close() error {
	var err error
	b.close.Do(func() {
		close(b.closed)
		b.mu.Lock()
		b.stopped = true
		b.mu.Unlock()
		err = b.server.Close()
		<-b.done
		b.handlers.Wait()
	})
	return err
}

// SetFaults replaces what is wrong.
func (b *BMC) SetFaults(f Faults) {
	powered := b.cfg.Machine.Powered()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults, b.stalePower = f, powered
	if f.ForgetSessions {
		clear(b.sessions)
	}
}

// Writes lists every write since the start, oldest first.
func (b *BMC) Writes() []Write {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Write(nil), b.writes...)
}

// Actions lists what the writes did to the server, oldest first: power actions
// and boot settings that were accepted, no logins.
func (b *BMC) Actions() []string {
	var actions []string
	for _, w := range b.Writes() {
		if w.Status < 300 && w.Action != "" && w.Action != ActionLogin && w.Action != ActionLogout {
			actions = append(actions, w.Action)
		}
	}
	return actions
}

// Reads counts the requests that were reads, whatever came of them.
func (b *BMC) Reads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// Sessions counts the open sessions; PeakSessions the most that were ever open at
// once, and OpenedSessions all that were.
func (b *BMC) Sessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.sessions)
}

// PeakSessions is the most sessions that were open at once.
func (b *BMC) PeakSessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peak
}

// OpenedSessions counts all sessions ever opened.
func (b *BMC) OpenedSessions() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened
}

// ServeHTTP counts, logs, and applies the faults.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	b.mu.Lock()
	if b.stopped {
		b.mu.Unlock()
		return
	}
	b.handlers.Add(1)
	defer b.handlers.Done()
	if read {
		b.reads++
	}
	f := b.faults
	b.mu.Unlock()
	if f.Match != nil && !f.Match(r.Method, r.URL.Path) {
		f = Faults{}
	}
	// net/http notices that a client has gone only once the body was read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, http.StatusRequestEntityTooLarge, "Base.1.16.PayloadTooLarge", "the body cannot be read")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if read {
		if f.before(w, r, b.closed) {
			b.read(w, r, f)
		}
		return
	}
	b.serveWrite(w, r, f)
}

// serveWrite answers from memory, so that the log holds the status and the
// reply can be lost.
func (b *BMC) serveWrite(w http.ResponseWriter, r *http.Request, f Faults) {
	answer := &recorder{header: http.Header{}}
	entry := Write{At: time.Now(), Method: r.Method, Path: r.URL.Path}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		entry.Status = answer.status
		b.writes = append(b.writes, entry)
	}()
	if f.before(answer, r, b.closed) {
		entry.Action = b.write(answer, r, f)
		if f.LoseReply {
			panic(http.ErrAbortHandler)
		}
	}
	answer.replay(w)
}

// recorder is an answer that has not been sent.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

func (r *recorder) replay(w http.ResponseWriter) {
	if r.status == 0 {
		return // the client has gone
	}
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}

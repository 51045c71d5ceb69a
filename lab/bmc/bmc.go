// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/hardware"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/session"
)

// Aliases of the emulator's packages.
type (
	// Authority signs the certificates of BMCs.
	Authority = endpoint.Authority
	// Personality describes the BMC of one vendor.
	Personality = personality.Personality
	// Quirks are deviations from the standard.
	Quirks = personality.Quirks
	// Faults are the faults of a BMC, and PowerLie a wrong power state.
	Faults   = fault.Faults
	PowerLie = fault.PowerLie
	// Drive is a disk of the server.
	Drive = hardware.Drive
)

// NewAuthority returns an authority and a certificate for localhost, the loopback addresses, and
// the given names and addresses. Both are valid for ten years.
func NewAuthority(names ...string) (*Authority, error) { return endpoint.NewAuthority(names...) }

// Personalities returns new personalities, the standard's own first.
func Personalities() []Personality { return personality.All() }

// The wrong power states.
const (
	Stale    = fault.Stale
	Opposite = fault.Opposite
)

// ActionLogin and ActionLogout do not affect the server.
const (
	ActionLogin  = session.ActionLogin
	ActionLogout = session.ActionLogout
)

// DefaultMaxSessions is the limit of iDRAC (field notes).
const DefaultMaxSessions = 8

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// System is what the BMC reports about the server.
type System struct {
	// UUID as in SMBIOS. Redfish shows it in upper case, as many BMCs do.
	UUID, Serial, Manufacturer, Model string
	// MACs of the network interfaces.
	MACs        []string
	Cores       int
	MemoryBytes int64
	// BMCFirmware and BMCUUID identify the manager.
	BMCFirmware, BMCUUID string
	// Drives of the server; nil: one of 480 GB.
	Drives []Drive
}

// Config describes one BMC.
type Config struct {
	// Authority signs the certificate. Required.
	Authority *Authority
	// Machine is the server. Required.
	Machine Machine
	// Listener accepts plain TCP connections; the BMC adds TLS and closes it. Nil: a free port of
	// 127.0.0.1.
	Listener net.Listener
	// Relisten returns a new Listener after a restart of the BMC. With a Listener and without
	// Relisten, connections are broken during the restart, not refused.
	Relisten func() (net.Listener, error)
	// Username and Password of the only account. Required.
	Username, Password string
	// System is the server. Empty Manufacturer, Model and BMCFirmware mean the
	// personality's.
	System System
	// Personality is the vendor's BMC; zero: a bare BMC.
	Personality Personality
	// Quirks of a bare BMC. A personality has its own quirks.
	Quirks Quirks
	// MaxSessions that may be open; 0: the personality's or DefaultMaxSessions.
	MaxSessions int
	// SessionTimeout ends unused sessions; 0: the personality's or never.
	SessionTimeout time.Duration
	// TaskSteps of each task; 0: 3. Each read of a task or of the firmware inventory is a step.
	TaskSteps int
	// RebootTime is how long the BMC is unreachable after Manager.Reset; 0: 1 s.
	RebootTime time.Duration
	// Client fetches firmware and pushes events; nil: an own client.
	Client *http.Client
	// Now is the clock of sessions and the event log; nil: time.Now.
	Now func() time.Time
	// MaxTLS bounds the TLS version; 0: the newest.
	MaxTLS uint16
	// Plain serves HTTP without TLS, as behind a TLS proxy.
	Plain bool
}

// Write is one request other than a read.
type Write struct {
	At           time.Time
	Method, Path string
	// Action describes the request: "Reset ForceOff", "Boot Once Pxe UEFI", "Login", "Logout";
	// empty if it was not understood.
	Action string
	// Status of the answer, even if Faults.LoseReply dropped it; 0: the request was never handled
	// (Faults.Hang).
	Status int
}

// BMC is a running emulator. It is safe for concurrent use.
type BMC struct {
	cfg      Config
	p        Personality
	endpoint *endpoint.Endpoint
	sessions *session.Service
	services *services // nil for a bare BMC
	closed   chan struct{}
	close    sync.Once

	// handlers counts the requests and restarts in progress; Close waits for them.
	handlers sync.WaitGroup

	mu         sync.Mutex
	stopped    bool
	faults     fault.List
	stalePower bool // the state that Stale shows
	writes     []Write
	reads      int
	// etag counts changes of the system.
	etag int
	// started is how many boots were seen. conflicts and refusals are the rest of OnConflicts and
	// POSTRefusals.
	started             uint64
	conflicts, refusals int
	// transitional is shown instead of On; empty: On.
	transitional string
	lit          bool
}

// Start starts a BMC. Close stops it.
func Start(cfg Config) (*BMC, error) {
	if cfg.Authority == nil || cfg.Machine == nil || cfg.Username == "" || cfg.Password == "" {
		return nil, errors.New("start BMC: authority, machine, username and password are required")
	}
	p := cfg.Personality
	if p.Bare() {
		p.Quirks = cfg.Quirks
	}
	cfg.MaxSessions = cmp.Or(cfg.MaxSessions, p.MaxSessions, DefaultMaxSessions)
	cfg.SessionTimeout = cmp.Or(cfg.SessionTimeout, p.SessionTimeout)
	cfg.RebootTime = cmp.Or(cfg.RebootTime, time.Second)
	cfg.System.Manufacturer = cmp.Or(cfg.System.Manufacturer, p.Manufacturer)
	cfg.System.Model = cmp.Or(cfg.System.Model, p.Model)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	p.BMCFirmware = cmp.Or(cfg.System.BMCFirmware, p.BMCFirmware)
	b := &BMC{cfg: cfg, p: p, closed: make(chan struct{})}
	b.sessions = session.New(session.Config{
		Personality: p, Username: cfg.Username, Password: cfg.Password, Max: cfg.MaxSessions, Timeout: cfg.SessionTimeout, Now: cfg.Now,
	})
	b.started = b.boots()
	if !p.Bare() {
		b.services = newServices(b)
	}
	var err error
	b.endpoint, err = endpoint.Start(endpoint.Config{
		Authority: cfg.Authority, Handler: b, Listener: cfg.Listener, Relisten: cfg.Relisten, MaxTLS: cfg.MaxTLS, Plain: cfg.Plain,
	})
	if err != nil {
		return nil, fmt.Errorf("start BMC: %w", err)
	}
	return b, nil
}

// Address returns redfish://host:port, or redfish+http://host:port without TLS.
func (b *BMC) Address() string {
	scheme := "redfish://"
	if b.cfg.Plain {
		scheme = "redfish+http://"
	}
	return scheme + b.endpoint.Addr().String()
}

// SystemPath returns the @odata.id of the system.
func (b *BMC) SystemPath() string { return b.p.System() }

// Close stops the BMC and breaks its connections.
func (b *BMC) Close() error {
	var err error
	b.close.Do(func() {
		close(b.closed)
		b.mu.Lock()
		b.stopped = true
		b.mu.Unlock()
		err = b.endpoint.Close()
		if b.services != nil {
			b.services.close()
		}
		b.handlers.Wait()
	})
	return err
}

// SetFaults replaces the faults. Faults that match a request add up; of conflicting values, the
// first counts.
func (b *BMC) SetFaults(faults ...Faults) {
	powered := b.cfg.Machine.Powered()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stalePower = powered
	b.faults.Set(faults...)
	for _, f := range faults {
		if f.ForgetSessions {
			b.sessions.Forget()
		}
	}
}

// Writes returns every write since the start, oldest first.
func (b *BMC) Writes() []Write {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Write(nil), b.writes...)
}

// Actions returns the power actions and boot settings that were accepted, oldest first.
func (b *BMC) Actions() []string {
	var actions []string
	for _, w := range b.Writes() {
		if w.Status < 300 && w.Action != "" && w.Action != ActionLogin && w.Action != ActionLogout {
			actions = append(actions, w.Action)
		}
	}
	return actions
}

// Reads counts the reads, whatever their answers.
func (b *BMC) Reads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reads
}

// Sessions counts the open sessions, including those of a web interface.
func (b *BMC) Sessions() int {
	open, _, _, _ := b.sessions.Counts()
	if b.services != nil && b.services.web != nil {
		open += b.services.web.Sessions()
	}
	return open
}

// PeakSessions returns the most sessions that were open at once.
func (b *BMC) PeakSessions() int {
	_, peak, _, _ := b.sessions.Counts()
	return peak
}

// OpenedSessions counts all sessions ever opened.
func (b *BMC) OpenedSessions() int {
	_, _, opened, _ := b.sessions.Counts()
	return opened
}

// BasicRequests counts the requests with Basic credentials.
func (b *BMC) BasicRequests() int {
	_, _, _, basics := b.sessions.Counts()
	return basics
}

// ServeHTTP counts and logs requests and applies the faults.
func (b *BMC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !read && b.p.Quirks.SlashedWrites {
		path, slashed := strings.CutSuffix(r.URL.Path, "/")
		if !slashed {
			http.Redirect(w, r, path+"/", http.StatusPermanentRedirect)
			return
		}
		r.URL.Path = path
	}
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
	f := b.faults.For(r.Method, r.URL.Path)
	b.mu.Unlock()
	b.catchUp()
	if b.isPush(r) {
		b.serveWrite(w, r, f)
		return
	}
	// net/http notices a closed connection only after the body was read.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		resource.Fail(http.StatusRequestEntityTooLarge, "PayloadTooLarge", "the body cannot be read").Send(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if !read {
		b.serveWrite(w, r, f)
		return
	}
	if !f.Before(w, r, b.closed) {
		return
	}
	if !f.Changes() {
		b.read(w, r, f)
		return
	}
	answer := &recorder{header: http.Header{}}
	b.read(answer, r, f)
	body = f.Change(r.URL.Path, bytes.Clone(answer.body.Bytes()))
	answer.body.Reset()
	if f.Trickle == 0 {
		_, _ = answer.body.Write(body)
	}
	answer.replay(w)
	if f.Trickle > 0 {
		f.Drip(w, r, body, b.closed)
	}
}

// serveWrite answers through a recorder, so that the log has the status and the reply can be
// dropped.
func (b *BMC) serveWrite(w http.ResponseWriter, r *http.Request, f Faults) {
	answer := &recorder{header: http.Header{}}
	entry := Write{At: time.Now(), Method: r.Method, Path: r.URL.Path}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		entry.Status = answer.status
		b.writes = append(b.writes, entry)
	}()
	if f.Before(answer, r, b.closed) {
		entry.Action = b.write(answer, r, f)
		if f.LoseReply {
			panic(http.ErrAbortHandler)
		}
	}
	answer.replay(w)
	if entry.Action == actionResetBMC && answer.status < http.StatusMultipleChoices {
		_ = http.NewResponseController(w).Flush() // the client may have gone
		b.Reboot(b.cfg.RebootTime)
	}
}

// recorder holds an answer before it is sent.
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

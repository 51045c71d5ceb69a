// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/bootlog"
	"github.com/ingot-metal/ingot/internal/enrollment"
	"github.com/ingot-metal/ingot/internal/slots"
	"github.com/ingot-metal/ingot/internal/token"
)

// ProgressInterval is the minimum time between two progress calls of one step, and between two
// writes of progress to a host's status.
const ProgressInterval = 2 * time.Second

// pausedInterval is the interval at which an agent asks whether its host is still paused.
const pausedInterval = 10 * time.Second

// Timeouts of the HTTP server.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// BootRecorder records the end of the order that a host was booted for.
type BootRecorder interface {
	End(ctx context.Context, host client.ObjectKey, at time.Time, succeeded bool) error
}

// Options of a Server. All fields are required, unless they say otherwise.
type Options struct {
	// Client writes; its reads may come from a cache.
	Client client.Client
	// Live reads from the API server, not from a cache (I5).
	Live client.Reader
	// Keys verify agent tokens and sign the token of the installed system.
	Keys token.Keys
	// Pins of the agent API's key, for the installed system.
	Pins []token.Pin
	// Address is host:port of the agent API for installed systems. If it is empty, they use the
	// address that their agent used.
	Address string
	// Hardware returns the boot NIC that DHCP has shown at the source of a connection, on
	// networks where another server assigns the addresses. If it is nil or returns nil, the NIC
	// is unknown: an agent whose address nothing else ties to its host is rejected.
	Hardware func(conn net.Conn, source netip.Addr) net.HardwareAddr
	Recorder events.EventRecorder
	// Boots records the ends of orders; nil: they are not recorded.
	Boots BootRecorder
	// BootLog serves bootlog.Path, to which boot servers report boots; nil: it is not served.
	BootLog http.Handler
	// StateSince returns the time since which the state of hosts can be trusted (package
	// continuity); nil: it can always be trusted.
	StateSince func(ctx context.Context) (time.Time, error)
	// WatchFilterValue is the watch-filter label that this manager sets on hosts that it
	// enrolls; empty: it sets none.
	WatchFilterValue string
	Clock            clock.PassiveClock
	Log              logr.Logger
}

// Server serves the agent API.
type Server struct {
	Options
	progress    progressLog
	enrollments enrollment.RateLimiter
	denied      *deniedCache
	// small limits calls with a few names and numbers. sessions and reports limit those with
	// lists of hardware.
	small, sessions, reports limit
	overload                 overload
}

// New returns a Server.
func New(o Options) *Server {
	o.Live = onceReader{o.Live}
	return &Server{
		Options:  o,
		denied:   newDeniedCache(),
		small:    limit{maxSmallBytes, &slots.Limiter[netip.Addr]{Total: smallAtOnce, PerKey: smallPerAddress}},
		sessions: limit{agentapi.MaxRequestBytes, &slots.Limiter[netip.Addr]{Total: sessionsAtOnce, PerKey: factsPerAddress}},
		reports:  limit{agentapi.MaxRequestBytes, &slots.Limiter[netip.Addr]{Total: reportsAtOnce, PerKey: factsPerAddress}},
		overload: overload{slots: &slots.Limiter[string]{Total: contactsAtOnce, PerKey: 1}},
	}
}

// Handler routes the agent API. It needs connections with TLS client certificates.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle(s, mux, s.sessions, agentapi.PathSession, s.openSession)
	handle(s, mux, s.small, agentapi.PathOrder, s.getOrder)
	handle(s, mux, s.small, agentapi.PathProgress, s.acceptProgress)
	handle(s, mux, s.small, agentapi.PathBootstrap, s.getBootstrap)
	handle(s, mux, s.reports, agentapi.PathReport, s.acceptReport)
	handle(s, mux, s.small, agentapi.PathBooted, s.acceptBooted)
	handle(s, mux, s.small, agentapi.PathLive, s.startLive)
	mux.HandleFunc("GET "+agentapi.PathLiveData, s.getLiveData)
	if s.BootLog != nil {
		mux.Handle(bootlog.Path, s.BootLog)
	}
	return mux
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// Serve serves the agent API until the context ends. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate) error {
	// HTTP/1 has one request per connection at a time; HTTP/2 would allow hundreds.
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:           requireTLS(s.Handler()),
		Protocols:         protocols,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	mux := newTLSMux(listener, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		// Any certificate is accepted: its key is compared with the host's order (I14).
		ClientAuth: tls.RequestClientCert,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		// A request whose write is running gets its reply.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	}()
	err := server.Serve(mux)
	if ctx.Err() != nil {
		<-done
	}
	_ = mux.Close()
	mux.running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// handle routes one call: JSON in, JSON out, refusals as agentapi.Error. It reads the body only
// after the token was verified and the request has a slot.
func handle[In, Out any](s *Server, mux *http.ServeMux, l limit, path string, call func(*http.Request, caller, In) (Out, *agentapi.Error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		c, refusal := s.identify(r)
		if refusal == nil {
			refusal = s.checkPurpose(c, path)
		}
		if refusal != nil {
			refuse(w, refusal)
			return
		}
		release := l.acquire(r.Context(), c.source)
		if release == nil {
			if r.Context().Err() == nil {
				refuse(w, overloaded())
				_ = http.NewResponseController(w).Flush()
				s.recordOverload(r.Context(), c)
			}
			return
		}
		defer release()
		ctx, cancel := context.WithTimeout(r.Context(), bodyTimeout+workTimeout)
		defer cancel()
		var in In
		var out Out
		if refusal = decode(w, r, l.bytes, &in); refusal == nil {
			out, refusal = call(r.WithContext(withFacts(ctx)), c, in)
		}
		if refusal != nil {
			refuse(w, refusal)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	})
}

// statusOf maps reasons to HTTP status codes, for people who read packet captures. Agents use
// the reason.
var statusOf = map[agentapi.Reason]int{
	agentapi.ReasonTokenInvalid:     http.StatusUnauthorized,
	agentapi.ReasonKeyConflict:      http.StatusForbidden,
	agentapi.ReasonHardwareMismatch: http.StatusForbidden,
	agentapi.ReasonOrderGone:        http.StatusGone,
	agentapi.ReasonNotReady:         http.StatusServiceUnavailable,
	agentapi.ReasonPaused:           http.StatusServiceUnavailable,
	agentapi.ReasonBadRequest:       http.StatusBadRequest,
	agentapi.ReasonTooLarge:         http.StatusRequestEntityTooLarge,
}

func refuse(w http.ResponseWriter, e *agentapi.Error) {
	w.Header().Set("Content-Type", "application/json")
	if e.RetryAfter > 0 { // live systems read no JSON
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(time.Duration(e.RetryAfter).Seconds()))))
	}
	w.WriteHeader(statusOf[e.Reason])
	_ = json.NewEncoder(w).Encode(e)
}

// notReady asks the agent to retry.
func notReady(message string) *agentapi.Error {
	return &agentapi.Error{
		Reason: agentapi.ReasonNotReady, Message: message,
		RetryAfter: agentapi.Duration(ProgressInterval),
	}
}

// unavailable logs that an attempt about a host failed, and asks the agent to retry. It does not log
// that the client has gone.
func (s *Server) unavailable(err error, attempt string, host client.ObjectKey) *agentapi.Error {
	if !errors.Is(err, context.Canceled) {
		s.Log.Error(err, "Could not "+attempt, "host", host.String())
	}
	return notReady("the manager could not " + attempt)
}

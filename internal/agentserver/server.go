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
	"github.com/ingot-metal/ingot/internal/token"
)

// ProgressInterval is the least time between two progress calls of one step, and
// between two writes of progress to a host's status.
const ProgressInterval = 2 * time.Second

// pausedInterval is how often an agent asks whether the pause is over.
const pausedInterval = 10 * time.Second

// Timeouts of the HTTP server: no agent needs longer for one of its small calls.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// BootEnds hears how the order ended for which a host was booted.
type BootEnds interface {
	End(ctx context.Context, host client.ObjectKey, at time.Time, succeeded bool) error
}

// Options of a Server. All fields are needed, unless they say otherwise.
type Options struct {
	// Client writes; its reads may come from a cache.
	Client client.Client
	// Live reads from the API server, not from a cache (I5).
	Live client.Reader
	// Keys verify agent tokens and mint the token of the installed system.
	Keys token.Keys
	// Pins of the agent API's key, for the installed system.
	Pins []token.Pin
	// Address is host:port by which servers reach the agent API. Empty means the one
	// by which the agent came, which its boot server gave it.
	Address string
	// Hardware returns the boot NIC that DHCP has shown at the source of a connection, on
	// networks where another server gives the addresses; nil, or none: it is not known, and
	// agents whose address nothing else shows are refused.
	Hardware func(conn net.Conn, source netip.Addr) net.HardwareAddr
	Recorder events.EventRecorder
	// Boots hears how orders ended; nil: none does. BootLog takes what boot servers
	// saw of boots, at bootlog.Path; nil: it is not taken.
	Boots   BootEnds
	BootLog http.Handler
	// StateSince returns the time since which the state of hosts can be trusted (package
	// continuity); nil: it can be trusted always.
	StateSince func(ctx context.Context) (time.Time, error)
	// WatchFilterValue is the label of the hosts that this manager looks after, which hosts
	// that it enrols get; empty: none.
	WatchFilterValue string
	Clock            clock.PassiveClock
	Log              logr.Logger
}

// Server serves the agent API.
type Server struct {
	Options
	progress   progressLog
	enrolments enrollment.Pace
	refusals   *refusals
	// small is for calls of some names and numbers, facts for those with lists of
	// hardware.
	small, facts limit
}

// New makes a Server.
func New(o Options) *Server {
	return &Server{
		Options:  o,
		refusals: newRefusals(),
		small:    limit{maxSmallBytes, newPlaces(smallAtOnce, smallPerAddress)},
		facts:    limit{agentapi.MaxRequestBytes, newPlaces(factsAtOnce, factsPerAddress)},
	}
}

// Handler routes the agent API. It needs connections with TLS client certificates.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle(s, mux, s.facts, agentapi.PathSession, s.openSession)
	handle(s, mux, s.small, agentapi.PathOrder, s.giveOrder)
	handle(s, mux, s.small, agentapi.PathProgress, s.takeProgress)
	handle(s, mux, s.small, agentapi.PathBootstrap, s.giveBootstrap)
	handle(s, mux, s.facts, agentapi.PathReport, s.takeReport)
	handle(s, mux, s.small, agentapi.PathBooted, s.takeBooted)
	handle(s, mux, s.small, agentapi.PathLive, s.startLive)
	mux.HandleFunc("GET "+agentapi.PathLiveData, s.giveLiveData)
	if s.BootLog != nil {
		mux.Handle(bootlog.Path, s.BootLog)
	}
	return mux
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// Serve runs until the context ends. The listener is closed by it.
func (s *Server) Serve(ctx context.Context, listener net.Listener, certificate tls.Certificate) error {
	// One connection is one request at a time: HTTP/2 would make it hundreds.
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	server := &http.Server{
		Handler:           inClear(s.Handler()),
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
	both := newEither(listener, &tls.Config{
		Certificates: []tls.Certificate{certificate},
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		// Any certificate will do: its key is compared with the ledger (I14).
		ClientAuth: tls.RequestClientCert,
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		// A write that is under way gets its reply.
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	}()
	err := server.Serve(both)
	if ctx.Err() != nil {
		<-done
	}
	_ = both.Close()
	both.running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// handle routes one call: JSON in, JSON out, refusals as agentapi.Error. Nothing of a
// body is read before its token is known to be one of ours and for this call, and it has
// a place.
func handle[In, Out any](s *Server, mux *http.ServeMux, most limit, path string, call func(*http.Request, caller, In) (Out, *agentapi.Error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		c, refusal := s.identify(r)
		if refusal == nil {
			refusal = s.mayCall(c, path)
		}
		if refusal != nil {
			refuse(w, refusal)
			return
		}
		leave := most.places.take(r.Context(), c.source)
		if leave == nil {
			refuse(w, notReady("the manager has too many requests"))
			return
		}
		defer leave()
		var in In
		if refusal := decode(w, r, most.bytes, &in); refusal != nil {
			refuse(w, refusal)
			return
		}
		out, refusal := call(r, c, in)
		if refusal != nil {
			refuse(w, refusal)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	})
}

// statusOf maps reasons to HTTP, for people who read packet captures; agents look
// at the reason.
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

// notReady asks the agent to come again.
func notReady(message string) *agentapi.Error {
	return &agentapi.Error{
		Reason: agentapi.ReasonNotReady, Message: message,
		RetryAfter: agentapi.Duration(ProgressInterval),
	}
}

// pausedHost asks the agent to do nothing, and to come again.
func pausedHost() *agentapi.Error {
	return &agentapi.Error{
		Reason: agentapi.ReasonPaused, Message: "the host is paused: nothing may be done to it",
		RetryAfter: agentapi.Duration(pausedInterval),
	}
}

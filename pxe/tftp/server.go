// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package tftp is a read-only TFTP server for boot loaders: RFC 1350 with the options of
// RFC 2347 to 2349 (blksize, timeout, tsize) and RFC 7440 (windowsize).
//
// The server refuses a missing file at once, because firmware (especially shim) requests
// optional files and waits for the answer. It knows no hosts and no boot plans.
//
//	files, err := tftp.OpenDir("/usr/lib/ipxe", map[string][]byte{"autoexec.ipxe": script})
//	srv := tftp.Server{Files: files}
//	err = srv.Serve(ctx, conn) // conn is bound to port 69
package tftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	DefaultMaxTransfers = 512  // each takes about 100 KiB and an open file
	DefaultMaxWaiting   = 8192 // each takes about 4 KiB
	DefaultTimeout      = time.Second
	DefaultRetries      = 5
	// DefaultMTU is Ethernet's, in bytes. Firmware cannot always reassemble fragments.
	DefaultMTU = 1500
)

const (
	// maxRequest is the largest request read, in bytes. RFC 2347 says 512.
	maxRequest = 2048
	readBuffer = 4 << 20 // receive buffer for requests, in bytes
)

type Server struct {
	Files Files
	// Absent are cleaned names of missing files that clients are known to request. The
	// server refuses them without reporting a failure.
	Absent []string
	// Dial opens a socket for one transfer, connected to the client, with the server's
	// address and any free port. Nil means a kernel socket.
	Dial func(client netip.AddrPort) (net.Conn, error)
	// SinglePort sends all transfers from the request socket, for networks whose firewalls
	// block other ports. It is slower.
	SinglePort bool
	// MaxTransfers limits the running transfers, and MaxWaiting the requests that wait for a
	// slot. One address may use a quarter of each. 0 means the default.
	MaxTransfers, MaxWaiting int
	// Timeout is the first wait for an acknowledgment, and doubles with each retry. Retries
	// is how often a window is sent again. 0 means the default.
	Timeout time.Duration
	Retries int
	// Drain is how long running transfers may continue when the server stops.
	Drain time.Duration
	// Observer, Metrics and Log may be nil.
	Observer pxe.Observer
	Metrics  *Metrics
	Log      *slog.Logger
}

// Serve answers read requests until ctx ends or the socket fails, and closes the socket. All
// transfers have ended when it returns. It returns nil when ctx ends.
func (s Server) Serve(ctx context.Context, conn net.PacketConn) error {
	transfers, abort := context.WithCancel(context.Background())
	run := newServing(s.withDefaults(conn), conn, ctx, transfers)
	if udp, ok := conn.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(readBuffer) // all servers of a rack may send requests at once
	}
	defer run.transfers.Wait()
	defer abort()
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.Background(), s.Drain)
		defer cancel()
		_ = run.running.Acquire(drain, int64(run.MaxTransfers)) // waits for all transfers
		_ = conn.Close()
	})()
	buf := make([]byte, maxRequest)
	for {
		n, from, err := conn.ReadFrom(buf)
		client, ok := from.(interface{ AddrPort() netip.AddrPort })
		switch {
		case err == nil && ok:
			run.packet(netip.AddrPortFrom(client.AddrPort().Addr().Unmap(), client.AddrPort().Port()), buf[:n])
		case ctx.Err() != nil && errors.Is(err, net.ErrClosed):
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("read TFTP request: %w", err)
		default:
			run.Log.Debug("Cannot read TFTP request", "error", err)
			time.Sleep(10 * time.Millisecond) // limits the CPU time
		}
	}
}

func (s Server) withDefaults(conn net.PacketConn) Server {
	s.MaxTransfers, s.MaxWaiting = cmp.Or(s.MaxTransfers, DefaultMaxTransfers), cmp.Or(s.MaxWaiting, DefaultMaxWaiting)
	s.Retries, s.Timeout = cmp.Or(s.Retries, DefaultRetries), cmp.Or(s.Timeout, DefaultTimeout)
	if s.Dial == nil {
		s.Dial = func(client netip.AddrPort) (net.Conn, error) {
			local, _ := conn.LocalAddr().(*net.UDPAddr)
			if local != nil {
				local = &net.UDPAddr{IP: local.IP, Zone: local.Zone}
			}
			return net.DialUDP("udp", local, net.UDPAddrFromAddrPort(client))
		}
	}
	if s.Observer == nil {
		s.Observer = pxe.ObserverFunc(func(pxe.BootEvent) {})
	}
	if s.Metrics == nil {
		s.Metrics, _ = NewMetrics(prometheus.NewRegistry()) // cannot fail
	}
	s.Log = cmp.Or(s.Log, slog.New(slog.DiscardHandler))
	return s
}

func (s *serving) packet(from netip.AddrPort, p []byte) {
	req, err := parseRequest(p)
	switch {
	case s.deliver(from, p):
	case opcode(p) == opWrite:
		s.refuse(from, codeIllegal, "this server is read-only")
		s.Metrics.count(outcomeRefused, 1)
	case err != nil:
		// Never answer an error with an error: two servers could do so endlessly.
		s.Log.Debug("Ignored a malformed TFTP packet", "from", from, "error", err)
	case req.mode != "octet":
		// netascii and mail (RFC 1350 section 1) would change the bytes of a loader.
		s.refuse(from, codeIllegal, "only octet mode is served")
		s.Metrics.count(outcomeRefused, 1)
	case !s.repeated(from, req):
		s.begin(from, req, false)
	}
}

// begin admits a request and starts its session. It refuses a missing file at once, even when
// no slot is free. A waiting session holds no open file.
func (s *serving) begin(from netip.AddrPort, req readRequest, mayRepeat bool) {
	defer s.recoverPanic(from, req.name)
	file, err := s.Files.Open(from.Addr(), req.name)
	if err != nil {
		s.refuseFile(from, req.name, err)
		return
	}
	_ = file.Close()
	session, err := s.admit(from, req)
	if errors.Is(err, errFull) {
		s.fail(outcomeBusy, from, req.name, err)
		s.refuse(from, codeUndefined, "too many transfers, try again")
	}
	if err != nil { // a stopping server stays silent, and the client's retry reaches another
		return
	}
	session.mayRepeat = mayRepeat
	s.transfers.Go(func() {
		s.session(session)
		replaced := session.isReplaced()
		if next := s.end(session); next != nil && s.ctx.Err() == nil {
			s.begin(from, *next, !replaced)
		}
	})
}

func (s *serving) session(session *session) {
	from, name := session.from, session.req.name
	defer s.recoverPanic(from, name)
	if !s.acquire(session) {
		if session.ctx.Err() == nil && s.stopping.Err() == nil {
			s.fail(outcomeBusy, from, name, fmt.Errorf("no slot became free within %s", waitLimit))
		}
		return
	}
	defer s.release(session)
	file, err := s.Files.Open(from.Addr(), name)
	if err != nil {
		s.refuseFile(from, name, err)
		return
	}
	defer func() { _ = file.Close() }()
	s.Metrics.running.Inc()
	defer s.Metrics.running.Dec()
	switch err := s.transfer(session, file); {
	case err == nil && !session.isReplaced():
		s.Metrics.count(outcomeSent, 1)
		s.observe(from, cmp.Or(file.Stage, pxe.StageLoader), cmp.Or(file.Detail, name))
	case err == nil, session.ctx.Err() != nil, errors.Is(err, errAborted), session.mayRepeat && errors.Is(err, errGone):
		s.Metrics.count(outcomeOf(err), 1)
		s.Log.Debug("TFTP transfer ended", "from", from, "file", name, "error", err)
	default:
		s.fail(outcomeOf(err), from, name, err)
	}
}

func (s *serving) transfer(session *session, file *File) error {
	conn, err := s.Dial(session.from)
	if err != nil {
		s.refuse(session.from, codeUndefined, "no transfer socket")
		return fmt.Errorf("open transfer socket: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(session.ctx, func() { _ = conn.Close() })()
	client := session.from.Addr()
	t := transfer{
		link: &ownSocket{Conn: conn}, file: file, size: file.Size, retries: s.Retries, ending: &session.ending, now: time.Now,
		terms: negotiate(session.req, file.Size, maxBlock(pathMTU(conn, client), client), s.Timeout),
	}
	if s.SinglePort {
		t.link = &sharedSocket{conn: s.conn, session: session}
	}
	err = t.run()
	s.Metrics.bytes.Add(float64(min(t.acked*int64(t.terms.blockSize), t.size)))
	if err != nil && session.ctx.Err() != nil {
		return context.Cause(session.ctx)
	}
	return err
}

// refuseFile sends the client the reason why it cannot have a file.
func (s *serving) refuseFile(from netip.AddrPort, name string, err error) {
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		s.refuse(from, codeUndefined, "cannot be read")
	case slices.Contains(s.Absent, Clean(name)):
		s.refuse(from, codeNotFound, "not found")
		s.Metrics.count(outcomeAbsent, 1)
		return
	default:
		s.refuse(from, codeNotFound, "not found")
	}
	s.fail(outcomeRefused, from, name, err)
}

func (s *serving) refuse(to netip.AddrPort, code byte, text string) {
	if _, err := s.conn.WriteTo(encodeError(code, text), net.UDPAddrFromAddrPort(to)); err != nil {
		s.Log.Debug("Cannot send a TFTP error", "to", to, "error", err)
	}
}

func (s *serving) fail(outcome string, from netip.AddrPort, name string, err error) {
	s.Metrics.count(outcome, 1)
	s.observe(from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %v", name, err))
}

func (s *serving) observe(from netip.AddrPort, stage pxe.Stage, detail string) {
	s.Observer.Observe(pxe.BootEvent{Client: from.Addr(), Stage: stage, Detail: detail, At: time.Now()})
}

// recoverPanic must be deferred. It ends the request after a panic, and the server continues.
func (s *serving) recoverPanic(from netip.AddrPort, name string) {
	if p := recover(); p != nil {
		s.Log.Error("TFTP request panicked", "from", from, "file", name, "panic", p, "stack", string(debug.Stack()))
		s.refuse(from, codeUndefined, "internal error")
		s.fail(outcomeFailed, from, name, errors.New("internal error"))
	}
}

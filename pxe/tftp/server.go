// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tftp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/pxe"
)

const (
	// DefaultMaxTransfers bounds concurrent transfers: of some 100 KiB each, and a
	// file that is open.
	DefaultMaxTransfers = 512
	// DefaultMaxWaiting bounds the requests that wait for a place, of one address a
	// quarter. They cost next to nothing.
	DefaultMaxWaiting = 8192
	// DefaultMTU is Ethernet's, in bytes; it leaves blocks of 1468. Firmware
	// cannot always reassemble fragments.
	DefaultMTU = 1500
	// DefaultTimeout is the first wait for an acknowledgement; it doubles.
	DefaultTimeout = time.Second
	// DefaultRetries is how often one window is sent again.
	DefaultRetries = 5
	// DefaultSlowAfter is how long a client may hardly take anything before it gives
	// its place to another.
	DefaultSlowAfter = 30 * time.Second
	// shareOfOne is the part of all places that one address may hold, so that one
	// broken client does not starve the others.
	shareOfOne = 4
	// waitLimit is how long a request waits for a place without being repeated;
	// firmware repeats within 1 to 5 s.
	waitLimit = 15 * time.Second
	// maxRequest is the size of the largest request read, in bytes. RFC 2347 says
	// 512.
	maxRequest = 2048
	// readBuffer is for requests that wait to be read, in bytes.
	readBuffer = 4 << 20
)

// Server serves files on a socket that it is given.
type Server struct {
	// Files is what can be read; they may be ClientFiles. Required.
	Files Files
	// Absent are names, as by Clean, that clients are given on purpose, or ask for by
	// themselves, and that Files does not have: they are refused like any other, but
	// that is no failure.
	Absent []string
	// ListenTransfer opens the socket for one transfer: on the server's
	// address, any free port (RFC 1350 §4: each transfer has its own). Required,
	// but for SinglePort.
	ListenTransfer func() (net.PacketConn, error)
	// SinglePort sends all transfers from the socket of the requests, for networks
	// whose firewalls let nothing else through. It is slower, and not what the RFC
	// says, but clients do not mind.
	SinglePort bool
	// PathMTU returns how many bytes a packet to a client may have, such as
	// RouteMTU; nil, or an error: DefaultMTU.
	PathMTU func(client netip.Addr) (int, error)
	// MaxTransfers, MaxWaiting, Retries, Timeout and SlowAfter: 0 means the default above.
	MaxTransfers, MaxWaiting, Retries int
	Timeout, SlowAfter                time.Duration
	// Drain is how long running transfers may go on when the server ends.
	Drain time.Duration
	// Observer, Metrics and Log may be nil.
	Observer pxe.Observer
	Metrics  *Metrics
	Log      *slog.Logger
}

// Serve answers read requests until ctx ends or the socket breaks, and closes
// the socket. All transfers have ended when it returns. A nil error means that
// ctx ended.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	run := newServing(s, conn)
	defer run.transfers.Wait()
	defer run.abort()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		run.drain()
		_ = conn.Close()
	})
	defer func() {
		if !stop() {
			<-ended
		}
		_ = conn.Close()
	}()
	buf := make([]byte, maxRequest)
	for {
		n, from, err := readFrom(conn, run.udp, buf)
		switch {
		case err == nil:
			run.packet(from, buf[:n])
		case errors.Is(err, net.ErrClosed):
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read TFTP request: %w", err)
		default:
			s.log().Debug("TFTP read failed", "error", err)
			time.Sleep(10 * time.Millisecond) // not a hot loop
		}
	}
}

// serving is the state of one Serve.
type serving struct {
	*Server
	conn net.PacketConn
	udp  *net.UDPConn
	// ctx ends the transfers that are left after the drain.
	ctx       context.Context
	abort     context.CancelFunc
	transfers sync.WaitGroup
	mu        sync.Mutex
	places    places
}

func newServing(s *Server, conn net.PacketConn) *serving {
	run := &serving{Server: s, conn: conn, places: newPlaces(
		orDefault(s.MaxTransfers, DefaultMaxTransfers), orDefault(s.MaxWaiting, DefaultMaxWaiting), orDefault(s.SlowAfter, DefaultSlowAfter))}
	if run.udp, _ = conn.(*net.UDPConn); run.udp != nil {
		// A rack that boots asks at once. The kernel gives as much as it may.
		_ = run.udp.SetReadBuffer(readBuffer)
	}
	run.ctx, run.abort = context.WithCancel(context.Background())
	return run
}

// drain takes no more requests, and waits for the running transfers, but not for
// ever.
func (s *serving) drain() {
	s.mu.Lock()
	s.places.close()
	s.mu.Unlock()
	if s.Drain > 0 {
		timer := time.AfterFunc(s.Drain, s.abort)
		defer timer.Stop()
	} else {
		s.abort()
	}
	s.transfers.Wait()
}

// packet takes what came to the server's own socket.
func (s *serving) packet(from netip.AddrPort, p []byte) {
	if len(p) >= 2 && binary.BigEndian.Uint16(p) != opRead {
		s.noRequest(from, p)
		return
	}
	req, err := parseRequest(p)
	switch {
	case err != nil:
		// Never answer an error with an error: two servers could play ping-pong.
		s.log().Debug("TFTP request dropped", "from", from, "error", err)
		return
	case req.mode != "octet":
		// netascii and mail (RFC 1350 §1) would change the bytes of a loader.
		s.refuse(from, codeIllegal, "only octet mode is served")
		s.Metrics.count(endRefused)
		return
	}
	s.mu.Lock()
	known := s.places.repeated(from, req)
	s.mu.Unlock()
	if known {
		return
	}
	// A missing file is refused at once, however many transfers run.
	file, err := s.open(from, req.name)
	if err != nil {
		s.refuseFile(from, req.name, err)
		return
	}
	s.admit(from, req, file)
}

// noRequest takes a packet that is no read request: in single-port mode it
// belongs to a transfer.
func (s *serving) noRequest(from netip.AddrPort, p []byte) {
	var shared *sharedSocket
	s.mu.Lock()
	if session := s.places.active[from]; session != nil {
		shared, _ = session.link.(*sharedSocket)
	}
	s.mu.Unlock()
	switch {
	case shared != nil:
		shared.deliver(p)
	case binary.BigEndian.Uint16(p) == opWrite:
		s.refuse(from, codeIllegal, "this server is read-only")
		s.Metrics.count(endRefused)
	default:
		s.log().Debug("TFTP packet dropped", "from", from)
	}
}

// open opens a file; one that panics is one that cannot be read.
func (s *serving) open(from netip.AddrPort, name string) (f File, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log().Error("TFTP request panicked", "file", name, "panic", p, "stack", string(debug.Stack()))
			f, err = nil, errPanic
		}
	}()
	if files, ok := s.Files.(ClientFiles); ok {
		return files.OpenFor(from.Addr(), name)
	}
	return s.Files.Open(name)
}

// admit gives the request a place, or lets it wait for one.
func (s *serving) admit(from netip.AddrPort, req readRequest, file File) {
	s.mu.Lock()
	session, what := s.places.take(from, req)
	if session != nil {
		s.transfers.Add(1)
	}
	s.mu.Unlock()
	if session != nil {
		go s.run(session, file)
		return
	}
	_ = file.Close()
	switch what {
	case placeLater:
		s.log().Debug("TFTP request waits for a place", "from", from, "file", req.name)
	case placeNever:
		s.refuse(from, codeUndefined, "too many transfers, try again")
		s.Metrics.count(endBusy)
		s.observe(from, pxe.StageFailed, fmt.Sprintf("TFTP %q: too many transfers", req.name))
	}
}

// next gives the place that session had to others that wait.
func (s *serving) next(session *session) {
	for {
		s.mu.Lock()
		if session != nil {
			s.places.free(session)
		}
		gone, next := s.places.next(time.Now())
		if next != nil {
			s.transfers.Add(1)
		}
		s.mu.Unlock()
		for _, w := range gone {
			s.Metrics.count(endBusy)
			s.observe(w.from, pxe.StageFailed, fmt.Sprintf("TFTP %q: no place was free, and the client asks no more", w.req.name))
		}
		if next == nil {
			return
		}
		session = nil
		file, err := s.open(next.from, next.req.name)
		if err == nil {
			go s.run(next, file)
			continue
		}
		s.refuseFile(next.from, next.req.name, err)
		s.transfers.Done() // never the last one: the caller's own runs
		session = next
	}
}

// run runs one transfer in its place, and tells how it went. A panic ends this
// transfer only.
func (s *serving) run(session *session, file File) {
	defer s.transfers.Done()
	defer s.next(session)
	defer func() {
		if p := recover(); p != nil {
			s.log().Error("TFTP transfer panicked", "from", session.from, "file", session.req.name, "panic", p, "stack", string(debug.Stack()))
			s.refuse(session.from, codeUndefined, "internal error")
			s.Metrics.count(endFailed)
			s.observe(session.from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %v", session.req.name, errPanic))
		}
	}()
	defer func() { _ = file.Close() }()
	defer s.Metrics.begin()()
	err := s.transfer(session, file)
	s.Metrics.count(endOf(err))
	switch {
	case s.ctx.Err() != nil || session.replaced.Load():
	case err == nil:
		stage, detail := pxe.StageLoader, session.req.name
		if staged, ok := file.(StagedFile); ok {
			stage, detail = staged.Stage()
		}
		s.observe(session.from, stage, detail)
	case errors.Is(err, errAborted), session.repeat && errors.Is(err, errGone):
		s.log().Debug("TFTP transfer ended by the client", "from", session.from, "file", session.req.name, "error", err)
	default:
		s.observe(session.from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %v", session.req.name, err))
	}
}

func (s *serving) transfer(session *session, file File) error {
	link, err := s.connect(session.from)
	if err != nil {
		return err
	}
	s.mu.Lock()
	session.link = link
	s.mu.Unlock()
	var once sync.Once
	hangUp := func() { once.Do(link.close) }
	defer hangUp()
	defer context.AfterFunc(s.ctx, hangUp)()
	defer context.AfterFunc(session.ctx, hangUp)()
	timeout := orDefault(s.Timeout, DefaultTimeout)
	terms := negotiate(session.req, limits{size: file.Size(), maxBlock: s.maxBlock(session), timeout: timeout})
	t := transfer{
		link: link, file: newReader(file, terms.window*terms.blockSize), terms: terms,
		retries: orDefault(s.Retries, DefaultRetries), ending: &session.ending, answered: &session.answered, acknowledged: &session.acknowledged,
	}
	err = t.run()
	s.Metrics.sent(min(t.acked*int64(terms.blockSize), file.Size()))
	if err == nil || session.ctx.Err() == nil {
		return err
	}
	return context.Cause(session.ctx) // it held a place that others wait for
}

func (s *serving) connect(client netip.AddrPort) (link, error) {
	if s.SinglePort {
		return newSharedSocket(s.conn, client), nil
	}
	conn, err := s.ListenTransfer()
	if err != nil {
		s.refuse(client, codeUndefined, "no transfer socket")
		return nil, fmt.Errorf("open transfer socket: %w", err)
	}
	return newOwnSocket(conn, client), nil
}

// maxBlock is the largest block that goes to the client in one frame.
func (s *serving) maxBlock(session *session) int {
	mtu := DefaultMTU
	if s.PathMTU != nil && session.req.asks("blksize") {
		if n, err := s.PathMTU(session.from.Addr()); err == nil {
			mtu = n
		} else {
			s.log().Debug("path MTU unknown", "client", session.from, "error", err)
		}
	}
	headers := headersIPv4
	if !session.from.Addr().Is4() {
		headers = headersIPv6
	}
	return min(max(mtu-headers, defaultBlockSize), maxBlockSize)
}

// refuseFile tells the client why it cannot have a file.
func (s *serving) refuseFile(from netip.AddrPort, name string, err error) {
	if !errors.Is(err, fs.ErrNotExist) {
		s.refuse(from, codeUndefined, "cannot be read")
	} else {
		s.refuse(from, codeNotFound, "not found")
		if slices.Contains(s.Absent, Clean(name)) {
			s.log().Debug("TFTP client sent on", "from", from, "file", name)
			s.Metrics.count(endAbsent)
			return
		}
	}
	s.Metrics.count(endRefused)
	s.observe(from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %v", name, err))
}

func (s *serving) refuse(to netip.AddrPort, code uint16, text string) {
	if _, err := s.conn.WriteTo(encodeError(code, text), net.UDPAddrFromAddrPort(to)); err != nil {
		s.log().Debug("TFTP error not sent", "to", to, "error", err)
	}
}

func (s *serving) observe(from netip.AddrPort, stage pxe.Stage, detail string) {
	if s.Observer != nil {
		s.Observer.Observe(pxe.BootEvent{Client: from.Addr(), Stage: stage, Detail: detail, At: time.Now()})
	}
}

// errPanic reports a fault of ours.
var errPanic = errors.New("internal error")

func (s *Server) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

func orDefault[N int | time.Duration](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

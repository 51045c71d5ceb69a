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
	// DefaultMaxTransfers bounds concurrent transfers. Each takes about 100 KiB and an
	// open file.
	DefaultMaxTransfers = 512
	// DefaultMaxWaiting bounds the requests that wait for a slot, of one address a
	// quarter. Each takes about 4 KiB.
	DefaultMaxWaiting = 8192
	// DefaultMTU is Ethernet's, in bytes; it leaves blocks of 1468. Firmware
	// cannot always reassemble fragments.
	DefaultMTU = 1500
	// DefaultTimeout is the first wait for an acknowledgement; it doubles.
	DefaultTimeout = time.Second
	// DefaultRetries is how often one window is sent again.
	DefaultRetries = 5
	// shareOfOne is the part of all slots that one address may hold, so that one
	// broken client does not starve the others.
	shareOfOne = 4
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
	// MaxTransfers, MaxWaiting, Retries and Timeout: 0 means the default above.
	MaxTransfers, MaxWaiting, Retries int
	Timeout                           time.Duration
	// Drain is how long running transfers may continue when the server stops.
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
	slots     *slots
}

func newServing(s *Server, conn net.PacketConn) *serving {
	run := &serving{Server: s, conn: conn, slots: newSlots(
		orDefault(s.MaxTransfers, DefaultMaxTransfers), orDefault(s.MaxWaiting, DefaultMaxWaiting))}
	if run.udp, _ = conn.(*net.UDPConn); run.udp != nil {
		// All servers of a rack ask at the same time. The kernel gives as much as it may.
		_ = run.udp.SetReadBuffer(readBuffer)
	}
	run.ctx, run.abort = context.WithCancel(context.Background())
	return run
}

// drain accepts no more requests, and waits up to Server.Drain for the running transfers.
func (s *serving) drain() {
	s.slots.close()
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
	if s.slots.repeated(from, req) {
		return
	}
	s.begin(from, req, false)
}

// noRequest handles a packet that is no read request: in single-port mode it
// belongs to a transfer.
func (s *serving) noRequest(from netip.AddrPort, p []byte) {
	shared := s.slots.shared(from)
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

// begin admits a request and starts its session. It refuses a missing file at once,
// however many transfers run: shim asks for optional files and waits for the answer.
func (s *serving) begin(from netip.AddrPort, req readRequest, mayRepeat bool) {
	file, err := s.open(from, req.name)
	if err != nil {
		s.refuseFile(from, req.name, err)
		return
	}
	session, err := s.slots.admit(s.ctx, from, req)
	if err != nil {
		_ = file.Close()
		if errors.Is(err, errFull) { // one that stops is silent: the client repeats, and reaches the next
			s.busy(from, req, err.Error())
			s.refuse(from, codeUndefined, "too many transfers, try again")
		}
		return
	}
	session.mayRepeat = mayRepeat
	s.transfers.Add(1)
	go s.session(session, file)
}

// busy reports a request that got no slot.
func (s *serving) busy(from netip.AddrPort, req readRequest, why string) {
	s.Metrics.count(endBusy)
	s.observe(from, pxe.StageFailed, fmt.Sprintf("TFTP %q: %s", req.name, why))
}

// session waits for a slot, runs the transfer, and then starts what the client asked for
// in the meantime.
func (s *serving) session(session *session, file File) {
	defer s.transfers.Done()
	defer func() {
		if next := s.slots.end(session); next != nil && s.ctx.Err() == nil {
			s.begin(session.from, *next, !session.replaced.Load())
		}
	}()
	if !s.slots.try(session) {
		// Thousands may wait: they hold no file open.
		_ = file.Close()
		s.log().Debug("TFTP request waits for a slot", "from", session.from, "file", session.req.name)
		if !s.slots.wait(session) {
			if session.ctx.Err() == nil {
				s.busy(session.from, session.req, fmt.Sprintf("no slot became free within %s", waitLimit))
			}
			return
		}
		var err error
		if file, err = s.open(session.from, session.req.name); err != nil {
			s.slots.release(session)
			s.refuseFile(session.from, session.req.name, err)
			return
		}
	}
	defer s.slots.release(session)
	s.run(session, file)
}

// run runs one transfer, and reports its outcome. A panic ends this transfer only.
func (s *serving) run(session *session, file File) {
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
	case errors.Is(err, errAborted), session.mayRepeat && errors.Is(err, errGone):
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
	s.slots.begin(session, link)
	var once sync.Once
	hangUp := func() { once.Do(link.close) }
	defer hangUp()
	defer context.AfterFunc(s.ctx, hangUp)()
	defer context.AfterFunc(session.ctx, hangUp)()
	timeout := orDefault(s.Timeout, DefaultTimeout)
	terms := negotiate(session.req, limits{size: file.Size(), maxBlock: s.maxBlock(session), timeout: timeout})
	t := transfer{
		link: link, file: file, size: file.Size(), terms: terms,
		retries: orDefault(s.Retries, DefaultRetries), ending: &session.ending,
	}
	err = t.run()
	s.Metrics.sent(min(t.acked*int64(terms.blockSize), file.Size()))
	if err == nil || session.ctx.Err() == nil {
		return err
	}
	return context.Cause(session.ctx)
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

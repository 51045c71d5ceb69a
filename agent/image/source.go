// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ingot-metal/ingot/agent/wait"
	"github.com/ingot-metal/ingot/agentapi"
)

// Errors of a source that retries did not, or cannot, resolve.
var (
	// ErrUnavailable reports that the server answered that it does not have the image.
	ErrUnavailable = errors.New("image is not available")
	// ErrUnreachable reports that the server did not answer, or interrupted the transfer and
	// did not resume. The network may be at fault.
	ErrUnreachable = errors.New("image server is not reachable")
)

// Defaults and bounds of a Request.
const (
	defaultPatience = 10 * time.Minute
	defaultBusy     = 2 * time.Hour
	defaultStall    = time.Minute
	minWait         = 500 * time.Millisecond
	maxWait         = 30 * time.Second
)

// Request describes a source and the time limits for it.
type Request struct {
	Client *http.Client
	URL    string
	// Patience bounds the time without a byte, and without an answer that the server is
	// fetching the image without problems. Zero: 10 minutes.
	Patience time.Duration
	// Busy bounds the time for which the server may be fetching, or repeating earlier bytes.
	// Zero: 2 hours (20 GB at 25 Mbit/s).
	Busy time.Duration
	// OnBusy gets the time for which the server has been busy: at each answer that it is
	// fetching, and once a second while it sends nothing new. Several goroutines call it.
	OnBusy func(time.Duration)
	// Stall bounds the silence of a connection. Zero: 1 minute.
	Stall time.Duration
	// Moved returns the URL for the attempt after a failure, given the number of consecutive
	// failures. The content must be the same: size and final checksum are checked. Several
	// goroutines call it. Nil: the URL never changes.
	Moved func(ctx context.Context, failures int) string
	// Sleep waits between attempts, and returns early with the context's error. Nil: a timer.
	Sleep func(context.Context, time.Duration) error
	// Log gets one line per interruption. Nil: no output.
	Log func(format string, args ...any)
}

// Source is the content of a URL as one stream that resumes after interruptions. It is an
// io.ReadCloser for one goroutine.
type Source struct {
	// ctx is a field because Read has no context and waits for reconnects.
	ctx  context.Context
	req  Request
	body io.ReadCloser
	// hangUp closes the connection; watchdog calls it after Stall.
	hangUp   context.CancelFunc
	watchdog *time.Timer
	// read is the number of bytes returned, size the total (-1: unknown), and end the end of
	// a requested range (0: the whole).
	read, size, end int64
	failures        int
	lastSign        time.Time
	// busySince and wrongSince are the times, since the last new byte, from which the server
	// has been fetching or repeating bytes, and reporting a problem. problem is that problem.
	busySince, wrongSince time.Time
	problem               string
}

// OpenSource returns a source. The first Read or Size connects.
func OpenSource(ctx context.Context, req Request) *Source {
	req.Patience = cmp.Or(req.Patience, defaultPatience)
	req.Busy = cmp.Or(req.Busy, defaultBusy)
	if req.OnBusy == nil {
		req.OnBusy = func(time.Duration) {}
	}
	req.Stall = cmp.Or(req.Stall, defaultStall)
	if req.Sleep == nil {
		req.Sleep = wait.For
	}
	if req.Log == nil {
		req.Log = func(string, ...any) {}
	}
	return &Source{ctx: ctx, req: req, size: -1, lastSign: time.Now()}
}

// Size returns the size of the source in bytes, or -1 if the server does not state it. It
// connects if necessary.
func (s *Source) Size() (int64, error) {
	if s.body == nil {
		if err := s.reconnect(); err != nil {
			return -1, err
		}
	}
	return s.size, nil
}

// Offset is the number of bytes read so far.
func (s *Source) Offset() int64 { return s.read }

// Read implements io.Reader. It resumes lost connections.
func (s *Source) Read(p []byte) (int, error) {
	for {
		if s.body == nil {
			if err := s.reconnect(); err != nil {
				return 0, err
			}
		}
		n, err := body{s}.Read(p)
		s.read += int64(n)
		if n > 0 {
			s.failures, s.lastSign = 0, time.Now()
			s.busySince, s.wrongSince, s.problem = time.Time{}, time.Time{}, ""
			return n, nil
		}
		if errors.Is(err, io.EOF) && (s.size < 0 || s.read >= s.size || s.end > 0 && s.read >= s.end) {
			return 0, io.EOF
		}
		if err == nil {
			continue
		}
		_ = s.Close()
		if s.ctx.Err() != nil {
			return 0, context.Cause(s.ctx)
		}
		if err := s.wait(0, ErrUnreachable, fmt.Sprintf("connection lost after %d bytes", s.read)); err != nil {
			return 0, err
		}
	}
}

// body reads from the current connection and closes it after Stall without data.
type body struct{ *Source }

func (w body) Read(p []byte) (int, error) {
	w.watchdog.Reset(w.req.Stall)
	defer w.watchdog.Stop()
	return w.Source.body.Read(p)
}

// Close closes the current connection. Another Read would resume.
func (s *Source) Close() error {
	if s.hangUp != nil {
		s.hangUp()
		s.watchdog.Stop()
	}
	if s.body == nil {
		return nil
	}
	err := s.body.Close()
	s.body = nil
	return err
}

// reconnect returns once there is a body that continues at s.read, or with a final error.
func (s *Source) reconnect() error {
	for {
		if s.failures > 0 && s.req.Moved != nil {
			s.req.URL = s.req.Moved(s.ctx, s.failures)
		}
		res, err := s.get()
		if err != nil {
			_ = s.Close()
			if s.ctx.Err() != nil {
				return context.Cause(s.ctx)
			}
			// err contains the URL, which may carry credentials.
			if err := s.wait(0, ErrUnreachable, "connect: "+withoutURL(err).Error()); err != nil {
				return err
			}
			continue
		}
		done, after, err := s.accept(res)
		if done {
			return err
		}
		kind, cause := ErrUnavailable, fmt.Sprintf("HTTP status %d", res.StatusCode)
		if res.StatusCode == http.StatusOK {
			kind, cause = ErrUnreachable, fmt.Sprintf("connection lost while repeating the first %d bytes", s.read)
		}
		if err := s.wait(after, kind, cause); err != nil {
			return err
		}
	}
}

func (s *Source) get() (*http.Response, error) {
	ctx, hangUp := context.WithCancel(s.ctx)
	s.hangUp, s.watchdog = hangUp, time.AfterFunc(s.req.Stall, hangUp)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.req.URL, nil)
	if err != nil {
		return nil, err
	}
	// The checksum is that of the stored file: no transfer encoding.
	req.Header.Set("Accept-Encoding", "identity")
	switch {
	case s.end > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", s.read, s.end-1))
	case s.read > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.read))
	}
	return s.req.Client.Do(req)
}

// accept uses the body of a successful answer. It returns done with the final result, or the
// delay that the server requests before a retry.
func (s *Source) accept(res *http.Response) (done bool, after time.Duration, err error) {
	switch {
	case res.StatusCode == http.StatusOK && s.end > 0:
		_, _ = res.Body.Close(), s.Close()
		return true, 0, errNoRanges
	case res.StatusCode == http.StatusPartialContent && (s.read > 0 || s.end > 0):
		if err := s.checkRange(res.Header.Get("Content-Range")); err != nil {
			_, _ = res.Body.Close(), s.Close()
			return true, 0, err
		}
		s.body = res.Body
		return true, 0, nil
	case res.StatusCode == http.StatusOK:
		if err := s.checkSize(res.ContentLength); err != nil {
			_, _ = res.Body.Close(), s.Close()
			return true, 0, err
		}
		s.body = res.Body
		return s.repeat()
	case retryable(res.StatusCode):
		_, _ = res.Body.Close(), s.Close()
		s.recordBusy(res)
		return false, retryAfter(res.Header), nil
	default:
		_, _ = res.Body.Close(), s.Close()
		return true, 0, fmt.Errorf("%w: HTTP status %s", ErrUnavailable, res.Status)
	}
}

// recordBusy evaluates an answer without the image. A server that is fetching may take its
// time; one that reports a problem may retry forever and is subject to Patience.
func (s *Source) recordBusy(res *http.Response) {
	now := time.Now()
	switch problem := res.Header.Get(agentapi.HeaderImageProblem); {
	case problem != "":
		s.problem = printable(problem, 300)
		if s.wrongSince.IsZero() {
			s.wrongSince = now
		}
	case res.StatusCode == http.StatusServiceUnavailable: // still fetching
		s.problem, s.wrongSince = "", time.Time{}
	}
	if res.StatusCode != http.StatusServiceUnavailable {
		return
	}
	s.lastSign = now
	if s.busySince.IsZero() {
		s.busySince = now
	}
	s.req.OnBusy(now.Sub(s.busySince))
}

// overdue returns the time since the last progress, and whether it exceeds Patience or Busy.
func (s *Source) overdue() (time.Duration, bool) {
	since := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 0
		}
		return time.Since(t)
	}
	silent, wrong, busy := since(s.lastSign), since(s.wrongSince), since(s.busySince)
	return max(silent, wrong, busy), max(silent, wrong) > s.req.Patience || busy > s.req.Busy
}

// printable makes text from a server fit for one line of at most n bytes.
func printable(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), n)]
}

// repeat discards the bytes that were read before, from a server that ignored the range.
func (s *Source) repeat() (done bool, after time.Duration, err error) {
	if s.read > 0 && s.busySince.IsZero() {
		s.busySince = time.Now()
	}
	if _, err := io.CopyN(io.Discard, repeatedBody{s}, s.read); err != nil {
		_ = s.Close()
		return false, 0, nil
	}
	return true, 0, nil
}

// repeatedBody is the body while it contains nothing new. Its bytes count as those of a busy
// server: a transfer that never gets further ends after Busy.
type repeatedBody struct{ *Source }

func (a repeatedBody) Read(p []byte) (int, error) {
	n, err := body(a).Read(p)
	if now := time.Now(); n > 0 && now.Sub(a.lastSign) >= time.Second {
		a.lastSign = now
		a.req.OnBusy(now.Sub(a.busySince))
	}
	return n, err
}

// checkSize records the size from an answer, -1 if it states none. Later answers must agree.
func (s *Source) checkSize(size int64) error {
	if s.size >= 0 && size >= 0 && size != s.size {
		return fmt.Errorf("%w: the size changed from %d to %d", ErrUnavailable, s.size, size)
	}
	s.size = max(s.size, size)
	return nil
}

// checkRange verifies that the answer continues at s.read and that the size is unchanged
// (RFC 9110 section 14.4).
func (s *Source) checkRange(header string) error {
	var first, last, total int64
	if _, err := fmt.Sscanf(header, "bytes %d-%d/%d", &first, &last, &total); err != nil || first != s.read {
		return fmt.Errorf("%w: requested the range from %d, got %.40q", ErrUnavailable, s.read, header)
	}
	return s.checkSize(total)
}

func retryable(status int) bool {
	switch status {
	case http.StatusServiceUnavailable, http.StatusBadGateway, http.StatusGatewayTimeout,
		http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true
	}
	return false
}

// retryAfter returns the header's value if it is in seconds, at most maxWait.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
}

// wait sleeps before the next attempt: the delay that the server requested plus up to a
// second, since many servers get the same delay in whole seconds, or a jittered backoff. If
// the source is overdue, it fails with the kind of the last failure.
func (s *Source) wait(after time.Duration, kind error, cause string) error {
	if s.problem != "" {
		cause += ": " + s.problem
	}
	if silent, overdue := s.overdue(); overdue {
		return fmt.Errorf("%w: %s; no progress for %s", kind, cause, silent.Round(time.Second))
	}
	if after == 0 {
		after = min(minWait<<min(s.failures, 10), maxWait)
		after = after/2 + rand.N(after/2+1)
	} else {
		after += rand.N(time.Second)
	}
	s.failures++
	s.req.Log("image: %s; retrying in %s", cause, after.Round(100*time.Millisecond))
	return s.req.Sleep(s.ctx, after)
}

func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// errNoRanges reports that the server ignores range requests.
var errNoRanges = errors.New("the server does not support range requests")

// ranges reads parts of the image independently of its stream, with the same retries. It is
// an io.ReaderAt for one goroutine.
type ranges struct {
	// ctx is a field because ReadAt has no context and waits for reconnects.
	ctx  context.Context
	req  Request
	size int64
}

// ReadAt implements io.ReaderAt. It fails with errNoRanges if the server ignores ranges.
func (r ranges) ReadAt(p []byte, off int64) (int, error) {
	if r.size >= 0 && off+int64(len(p)) > r.size {
		return 0, io.EOF
	}
	part := OpenSource(r.ctx, r.req)
	part.read, part.size, part.end = off, r.size, off+int64(len(p))
	n, err := fill(part, p)
	if err == nil { // read up to the end, so that the connection can be reused
		if _, err := part.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
			return n, err
		}
	}
	return n, errors.Join(err, part.Close())
}

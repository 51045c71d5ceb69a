// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
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

// How a source fails when waiting does not help, or has not helped.
var (
	// ErrUnavailable: the server has answered that it does not give the image.
	ErrUnavailable = errors.New("image is not available")
	// ErrUnreachable: the server has not answered, or has broken off and not come
	// back; the fault may be on the way.
	ErrUnreachable = errors.New("image server is not reachable")
)

// Defaults of a Request.
const (
	defaultPatience = 10 * time.Minute
	defaultBusy     = 2 * time.Hour
	defaultStall    = time.Minute
	minWait         = 500 * time.Millisecond
	maxWait         = 30 * time.Second
)

// Request says what to read and how patiently.
type Request struct {
	Client *http.Client
	URL    string
	// Patience is how long the source may go without a byte, or without an answer
	// that it is fetching the image and knows of nothing wrong, before Read gives up;
	// 10 minutes when zero.
	Patience time.Duration
	// Busy is how long it may be fetching, or giving again what it gave before; 2 hours when
	// zero: 20 GB at 25 Mbit/s.
	Busy time.Duration
	// OnBusy is told, by several goroutines, for how long it has been so, each time it says
	// that it is fetching, and once a second while it gives nothing new.
	OnBusy func(time.Duration)
	// Stall is how long a connection may be silent before it counts as lost;
	// 1 minute when zero.
	Stall time.Duration
	// Moved is asked, by several goroutines, before each attempt that follows a
	// failure, with the number of failures in a row, and says where the image is now:
	// the same bytes, which is checked by their size and, at the end, the checksum.
	// Nil: it stays at URL.
	Moved func(ctx context.Context, failures int) string
	// Sleep waits between attempts; it returns early with the context's error. A
	// timer when nil.
	Sleep func(context.Context, time.Duration) error
	// Log receives one line per interruption; nothing when nil.
	Log func(format string, args ...any)
}

// Source is the content of a URL as one uninterrupted stream: it resumes where it
// was cut off. It is an io.ReadCloser for one goroutine.
type Source struct {
	// ctx is kept because Read, whose form is given, has to wait and reconnect.
	ctx  context.Context
	req  Request
	body io.ReadCloser
	// hangUp ends the connection; watchdog does when it is silent for too long.
	hangUp   context.CancelFunc
	watchdog *time.Timer
	// read bytes given out; size of the whole, -1 when unknown; end is where a part
	// ends, 0 for the whole.
	read, size, end int64
	failures        int
	lastSign        time.Time
	// busySince and wrongSince are since when, without a byte that is new, the source has been
	// saying that it is fetching the image, or giving what was read before, and saying that
	// something is wrong with the image; problem is what.
	busySince, wrongSince time.Time
	problem               string
}

// OpenSource returns a source at once; the first Read or Size connects.
func OpenSource(ctx context.Context, req Request) *Source {
	if req.Patience == 0 {
		req.Patience = defaultPatience
	}
	if req.Busy == 0 {
		req.Busy = defaultBusy
	}
	if req.OnBusy == nil {
		req.OnBusy = func(time.Duration) {}
	}
	if req.Stall == 0 {
		req.Stall = defaultStall
	}
	if req.Sleep == nil {
		req.Sleep = wait.For
	}
	if req.Log == nil {
		req.Log = func(string, ...any) {}
	}
	return &Source{ctx: ctx, req: req, size: -1, lastSign: time.Now()}
}

// Size connects if necessary and returns the size of the source in bytes, or -1
// when the server does not say.
func (s *Source) Size() (int64, error) {
	if s.body == nil {
		if err := s.reconnect(); err != nil {
			return -1, err
		}
	}
	return s.size, nil
}

// Offset is how many bytes were read so far.
func (s *Source) Offset() int64 { return s.read }

// Read implements io.Reader. A lost connection is resumed and not seen.
func (s *Source) Read(p []byte) (int, error) {
	for {
		if s.body == nil {
			if err := s.reconnect(); err != nil {
				return 0, err
			}
		}
		n, err := watched{s}.Read(p)
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

// watched is the body of a connection that is hung up when it is silent for too long.
type watched struct{ *Source }

func (w watched) Read(p []byte) (int, error) {
	w.watchdog.Reset(w.req.Stall)
	defer w.watchdog.Stop()
	return w.body.Read(p)
}

// Close ends the current connection. Reading again would resume.
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

// reconnect returns with a body that continues at s.read, or with an error that
// is final.
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
			// The URL is in err; it may carry credentials.
			if err := s.wait(0, ErrUnreachable, "no connection: "+withoutURL(err).Error()); err != nil {
				return err
			}
			continue
		}
		done, after, err := s.accept(res)
		if done {
			return err
		}
		kind, why := ErrUnavailable, fmt.Sprintf("answer %d", res.StatusCode)
		if res.StatusCode == http.StatusOK {
			kind, why = ErrUnreachable, fmt.Sprintf("connection lost while the first %d bytes were read again", s.read)
		}
		if err := s.wait(after, kind, why); err != nil {
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
	// What is stored is what is wanted: no decoding on the way.
	req.Header.Set("Accept-Encoding", "identity")
	switch {
	case s.end > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", s.read, s.end-1))
	case s.read > 0:
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", s.read))
	}
	return s.req.Client.Do(req)
}

// accept takes the body of a good answer. It is done, with or without an error, or
// the request is to be repeated after the time the server asked for.
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
		return s.skip()
	case retryable(res.StatusCode):
		_, _ = res.Body.Close(), s.Close()
		s.hear(res)
		return false, retryAfter(res.Header), nil
	default:
		_, _ = res.Body.Close(), s.Close()
		return true, 0, fmt.Errorf("%w: the server answered %s", ErrUnavailable, res.Status)
	}
}

// hear notes what the server says while it does not give the image. A boot server that is
// fetching it is alive, and may be for as long as that takes, unless it has failed to:
// then it tries again, perhaps for ever.
func (s *Source) hear(res *http.Response) {
	now := time.Now()
	switch problem := res.Header.Get(agentapi.HeaderImageProblem); {
	case problem != "":
		s.problem = printable(problem, 300)
		if s.wrongSince.IsZero() {
			s.wrongSince = now
		}
	case res.StatusCode == http.StatusServiceUnavailable: // its fetch goes on
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

// vain says for how long the source has given nothing, if that is long enough.
func (s *Source) vain() (time.Duration, bool) {
	since := func(t time.Time) time.Duration {
		if t.IsZero() {
			return 0
		}
		return time.Since(t)
	}
	silent, wrong, busy := since(s.lastSign), since(s.wrongSince), since(s.busySince)
	return max(silent, wrong, busy), max(silent, wrong) > s.req.Patience || busy > s.req.Busy
}

// printable is text as a server says it, made fit for a line of n bytes at most.
func printable(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), n)]
}

// skip reads again what was read before, from a server that ignored the range.
func (s *Source) skip() (done bool, after time.Duration, err error) {
	if s.read > 0 && s.busySince.IsZero() {
		s.busySince = time.Now()
	}
	if _, err := io.CopyN(io.Discard, again{s}, s.read); err != nil {
		_ = s.Close()
		return false, 0, nil
	}
	return true, 0, nil
}

// again is the body while it holds nothing new. Its bytes are signs of life, and are told as
// those of a busy server are: one that never comes further is given up as such.
type again struct{ *Source }

func (a again) Read(p []byte) (int, error) {
	n, err := watched(a).Read(p)
	if now := time.Now(); n > 0 && now.Sub(a.lastSign) >= time.Second {
		a.lastSign = now
		a.req.OnBusy(now.Sub(a.busySince))
	}
	return n, err
}

// checkSize keeps the size that an answer says, -1 where it says none. The first one that
// was said is that of all later ones.
func (s *Source) checkSize(size int64) error {
	if s.size >= 0 && size >= 0 && size != s.size {
		return fmt.Errorf("%w: size changed from %d to %d", ErrUnavailable, s.size, size)
	}
	s.size = max(s.size, size)
	return nil
}

// checkRange makes sure that the answer continues where we stopped and that the
// source is still the same size (RFC 9110 section 14.4).
func (s *Source) checkRange(header string) error {
	var first, last, total int64
	if _, err := fmt.Sscanf(header, "bytes %d-%d/%d", &first, &last, &total); err != nil || first != s.read {
		return fmt.Errorf("%w: asked for the rest from %d, got %.40q", ErrUnavailable, s.read, header)
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

// retryAfter reads the header in its form of seconds, at most maxWait.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
}

// wait sleeps before the next attempt: as long as the server asked and up to a second more,
// since it asks in whole seconds and many servers are told the same one, or backing off with
// jitter. When the source has given nothing for too long it gives up, with
// the kind of the last failure.
func (s *Source) wait(after time.Duration, kind error, why string) error {
	if s.problem != "" {
		why += ": " + s.problem
	}
	if silent, vain := s.vain(); vain {
		return fmt.Errorf("%w: %s; nothing for %s", kind, why, silent.Round(time.Second))
	}
	if after == 0 {
		after = min(minWait<<min(s.failures, 10), maxWait)
		after = after/2 + rand.N(after/2+1)
	} else {
		after += rand.N(time.Second)
	}
	s.failures++
	s.req.Log("image: %s, trying again in %s", why, after.Round(100*time.Millisecond))
	return s.req.Sleep(s.ctx, after)
}

func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

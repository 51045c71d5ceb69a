// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// ErrRefused reports a final refusal by the manager: a retry cannot succeed, and the agent
// must stop working on this server.
var ErrRefused = errors.New("refused by the manager")

type client struct {
	cfg       Config
	endpoints *endpoints
	http      *http.Client
}

func newClient(cfg Config) *client {
	return &client{cfg: cfg, endpoints: newEndpoints(cfg), http: &http.Client{
		Transport: &http.Transport{
			DialContext:         cfg.Dial,
			TLSClientConfig:     cfg.Identity.tlsConfig(cfg.Pins),
			TLSHandshakeTimeout: 20 * time.Second,
			MaxIdleConns:        1,
			IdleConnTimeout:     time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call is callWithRetry without a callback.
func (c *client) call(ctx context.Context, path string, in, out any) error {
	return c.callWithRetry(ctx, path, in, out, func(time.Duration) {})
}

// callWithRetry repeats a request until it is answered, the manager refuses it finally
// (ErrRefused), or the context ends. Every call is idempotent for the same key (agentapi).
// While the manager answers NotReady, for example until an operator fixes something,
// onNotReady gets the time since the first request.
func (c *client) callWithRetry(ctx context.Context, path string, in, out any, onNotReady func(time.Duration)) error {
	start := time.Now()
	for attempt := 0; ; attempt++ {
		err := c.callOnce(ctx, path, in, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if refusal, ok := errors.AsType[*agentapi.Error](err); ok && refusal.Reason == agentapi.ReasonNotReady {
			onNotReady(time.Since(start))
		}
		delay, final := c.retryDelay(err, attempt)
		if final {
			return fmt.Errorf("%w: %s: %w", ErrRefused, path, err)
		}
		if c.endpoints.needsSearch() {
			c.endpoints.search(ctx)
		}
		c.cfg.Log("manager: %s: %v; retrying in %s", path, err, delay.Round(100*time.Millisecond))
		if err := c.cfg.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// maxRetryAfter bounds the delay that the manager asks for.
const maxRetryAfter = time.Minute

// retryDelay returns the delay before the next attempt, or final if a retry cannot succeed. The
// delay grows exponentially with full jitter, so that many agents do not retry at the same time. It
// is at least what the manager asks for.
func (c *client) retryDelay(err error, attempt int) (delay time.Duration, final bool) {
	delay = rand.N(min(c.cfg.MinBackoff<<min(attempt, 16), c.cfg.MaxBackoff) + 1)
	refusal, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
		if status, ok := errors.AsType[*statusError](err); ok {
			delay = max(delay, jittered(status.retryAfter))
		}
		return delay, false
	}
	switch refusal.Reason {
	case agentapi.ReasonTokenInvalid, agentapi.ReasonKeyConflict,
		agentapi.ReasonOrderGone, agentapi.ReasonHardwareMismatch:
		return 0, true
	case agentapi.ReasonNotReady, agentapi.ReasonPaused:
	default:
		if refusal.RetryAfter <= 0 {
			return 0, true
		}
	}
	after := jittered(time.Duration(refusal.RetryAfter))
	if refusal.Reason == agentapi.ReasonPaused && after > 0 {
		return after, false // the manager is not overloaded
	}
	return max(delay, after), false
}

// jittered returns up to a quarter more than the delay that the manager asks for, at most
// maxRetryAfter.
func jittered(after time.Duration) time.Duration {
	after = min(max(after, 0), maxRetryAfter)
	return min(after+rand.N(after/4+1), maxRetryAfter)
}

// statusError is an answer that is not the manager's, for example from a proxy.
type statusError struct {
	status     int
	retryAfter time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the manager returned HTTP status %d", e.status)
}

// statusErrorOf reads the number of seconds in Retry-After. The clock of a server may be wrong, so
// that a date means nothing.
func statusErrorOf(res *http.Response) *statusError {
	seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 16)
	return &statusError{status: res.StatusCode, retryAfter: time.Duration(seconds) * time.Second}
}

// callOnce makes one call and records whether the server answered. Its error is an
// *agentapi.Error if the manager refused.
func (c *client) callOnce(ctx context.Context, path string, in, out any) error {
	server, token := c.endpoints.server()
	err := c.post(ctx, server, token, path, in, out)
	if _, refused := errors.AsType[*agentapi.Error](err); err == nil || refused {
		c.endpoints.reportSuccess()
	} else if ctx.Err() == nil {
		c.endpoints.reportFailure(server)
	}
	return err
}

func (c *client) post(ctx context.Context, server string, token agentapi.Sensitive, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(agentapi.TokenHeader, "Bearer "+token.Reveal())
	res, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, agentapi.MaxBootstrapBytes*2))
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(answer, out); err != nil {
			// The answer may contain bootstrap data: the error must not quote it.
			return errors.New("cannot decode the answer")
		}
		return nil
	}
	var refusal agentapi.Error
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Reason == "" {
		return statusErrorOf(res)
	}
	return &refusal
}

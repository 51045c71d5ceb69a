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

// retryDelay returns the delay before the next attempt, or final if a retry cannot succeed.
func (c *client) retryDelay(err error, attempt int) (delay time.Duration, final bool) {
	delay = min(c.cfg.MinBackoff<<min(attempt, 16), c.cfg.MaxBackoff)
	delay = delay/2 + rand.N(delay/2+1)
	refusal, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
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
	if after := time.Duration(refusal.RetryAfter); after > 0 {
		delay = min(after, c.cfg.MaxBackoff)
	}
	return delay, false
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
		return fmt.Errorf("the manager returned HTTP status %d", res.StatusCode)
	}
	return &refusal
}

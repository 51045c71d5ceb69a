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

// ErrRefused says that the manager refused in a way that waiting does not heal:
// the agent has no business on this server any more.
var ErrRefused = errors.New("refused by the manager")

// client speaks the agent API for one boot.
type client struct {
	cfg    Config
	places *places
	http   *http.Client
}

func newClient(cfg Config) *client {
	return &client{cfg: cfg, places: newPlaces(cfg), http: &http.Client{
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

// call repeats a request until it has an answer, a final refusal (ErrRefused), or
// the context ends. Every call is idempotent for the same key (agentapi).
func (c *client) call(ctx context.Context, path string, in, out any) error {
	return c.callPatiently(ctx, path, in, out, func(time.Duration) {})
}

// callPatiently is call for what people may have to mend first: told hears for how long
// the manager has been saying that it is not ready.
func (c *client) callPatiently(ctx context.Context, path string, in, out any, told func(time.Duration)) error {
	began := time.Now()
	for attempt := 0; ; attempt++ {
		err := c.once(ctx, path, in, out)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if refusal, ok := errors.AsType[*agentapi.Error](err); ok && refusal.Reason == agentapi.ReasonNotReady {
			told(time.Since(began))
		}
		wait, final := c.verdict(err, attempt)
		if final {
			return fmt.Errorf("%w: %s: %w", ErrRefused, path, err)
		}
		if c.places.due() {
			c.places.search(ctx)
		}
		c.cfg.Log("manager: %s: %v; again in %s", path, err, wait.Round(100*time.Millisecond))
		if err := c.cfg.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// verdict says how long to wait before a repetition, or that there is none.
func (c *client) verdict(err error, attempt int) (wait time.Duration, final bool) {
	wait = min(c.cfg.MinBackoff<<min(attempt, 16), c.cfg.MaxBackoff)
	wait = wait/2 + rand.N(wait/2+1)
	refusal, ok := errors.AsType[*agentapi.Error](err)
	if !ok {
		return wait, false
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
		wait = min(after, c.cfg.MaxBackoff)
	}
	return wait, false
}

// once makes one call, and notes whether anybody answered. Its error is an
// *agentapi.Error when the manager refused.
func (c *client) once(ctx context.Context, path string, in, out any) error {
	server, token := c.places.server()
	err := c.post(ctx, server, token, path, in, out)
	if _, refused := errors.AsType[*agentapi.Error](err); err == nil || refused {
		c.places.answered()
	} else if ctx.Err() == nil {
		c.places.lost(server)
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
			// The answer may be bootstrap data: nothing of it may show.
			return errors.New("the answer is not what was asked for")
		}
		return nil
	}
	var refusal agentapi.Error
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Reason == "" {
		return fmt.Errorf("the manager answered %d", res.StatusCode)
	}
	return &refusal
}

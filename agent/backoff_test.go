// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// Delays grow with full jitter, so that agents of an overloaded manager spread their calls. They are
// at least what the manager asks for.
func TestRetryDelays(t *testing.T) {
	c := &client{cfg: Config{MinBackoff: time.Second, MaxBackoff: 30 * time.Second}}
	refused := func(reason agentapi.Reason, after time.Duration) error {
		return &agentapi.Error{Reason: reason, RetryAfter: agentapi.Duration(after)}
	}
	proxy := func(seconds string) error {
		return statusErrorOf(&http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {seconds}}})
	}
	lost := errors.New("timeout")
	for name, tc := range map[string]struct {
		err      error
		attempt  int
		min, max time.Duration // the lowest and highest delays that many agents see
	}{
		"first timeout":                 {lost, 0, 0, time.Second},
		"fourth timeout":                {lost, 3, 0, 8 * time.Second},
		"many timeouts":                 {lost, 60, 0, 30 * time.Second},
		"first refusal":                 {refused(agentapi.ReasonNotReady, 5*time.Second), 0, 5 * time.Second, 6250 * time.Millisecond},
		"many refusals":                 {refused(agentapi.ReasonNotReady, 5*time.Second), 60, 5 * time.Second, 30 * time.Second},
		"refusal without a time":        {refused(agentapi.ReasonNotReady, 0), 1, 0, 2 * time.Second},
		"long time":                     {refused(agentapi.ReasonNotReady, 40*time.Second), 60, 40 * time.Second, 50 * time.Second},
		"too long a time":               {refused(agentapi.ReasonNotReady, time.Hour), 60, time.Minute, time.Minute},
		"paused host":                   {refused(agentapi.ReasonPaused, 10*time.Second), 60, 10 * time.Second, 12500 * time.Millisecond},
		"proxy":                         {proxy("20"), 0, 20 * time.Second, 25 * time.Second},
		"proxy with too long a time":    {proxy("3600"), 0, time.Minute, time.Minute},
		"proxy with a date":             {proxy("Wed, 21 Oct 2026 07:28:00 GMT"), 0, 0, time.Second},
		"proxy with a negative time":    {proxy("-1"), 0, 0, time.Second},
		"proxy without a time, attempt": {proxy(""), 2, 0, 4 * time.Second},
	} {
		low, high := time.Hour, time.Duration(-1)
		for range 2000 {
			delay, final := c.retryDelay(tc.err, tc.attempt)
			if final {
				t.Fatalf("%s: the agent gives up", name)
			}
			low, high = min(low, delay), max(high, delay)
		}
		slack := (tc.max - tc.min) / 20
		if low < tc.min || high > tc.max || low > tc.min+slack || high < tc.max-slack {
			t.Errorf("%s: delays from %s to %s, want %s to %s", name, low, high, tc.min, tc.max)
		}
	}
}

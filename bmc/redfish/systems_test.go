// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestSystemsAreNamed: whoever has to choose a system, or chose one that is not there,
// is told which there are.
func TestSystemsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		systems    int
		want       string
	}{
		{"none chosen", "", 3, "the BMC has 3 systems; add the path of one to the address: /redfish/v1/Systems/1, /redfish/v1/Systems/other-1, /redfish/v1/Systems/other-2"},
		{"many", "", 12, "/redfish/v1/Systems/other-5, …"},
		{"another chosen", "/redfish/v1/Systems/7", 3, "the BMC has no system at /redfish/v1/Systems/7; correct the path: /redfish/v1/Systems/1, /redfish/v1/Systems/other-1"},
		{"the only one missed", "/redfish/v1/Systems/7", 1, "correct the path: /redfish/v1/Systems/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks.Systems = tt.systems })
			r.target.Address += tt.path
			conn, err := redfish.Dial(t.Context(), r.target)
			if err == nil {
				_, err = conn.PowerState(t.Context())
				if closeErr := conn.Close(t.Context()); closeErr != nil {
					t.Error(closeErr)
				}
			}
			if !errors.Is(err, bmc.ErrAddress) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrAddress and %q", err, tt.want)
			}
		})
	}
}

// TestSystemsShareASession: two systems of one BMC are read by one session, each as
// itself, and each has its stream of events.
func TestSystemsShareASession(t *testing.T) {
	r := newNamed(t, "openbmc", func(c *labbmc.Config) { c.Personality.Quirks.Systems, c.MaxSessions = 2, 1 })
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	defer closePool(t, pool)
	var streams []bmc.EventStream
	for _, path := range []string{r.SystemPath(), "/redfish/v1/Systems/other-1", r.SystemPath()} {
		target := r.target
		target.Address += path
		if err := pool.Do(t.Context(), target, func(ctx context.Context, c bmc.Conn) error {
			id, err := c.Identity(ctx)
			if err != nil {
				return err
			}
			if id.SystemID != path {
				t.Errorf("asked for %s, was told of %s", path, id.SystemID)
			}
			if len(streams) == 2 {
				return nil
			}
			stream, err := c.OpenEvents(ctx)
			streams = append(streams, stream)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	r.SetHealth("PSU 2", "Critical")
	for i, stream := range streams {
		if e := next(t, stream); e.Severity != bmc.HealthCritical {
			t.Errorf("stream %d told of %+v", i, e)
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := r.PeakSessions(); n != 1 {
		t.Errorf("%d sessions at once, want 1", n)
	}
}

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

// TestErrorsListSystems checks that the error for a missing or ambiguous system lists the existing
// systems.
func TestErrorsListSystems(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		systems    int
		want       string
	}{
		{"none in the address", "", 3, "the BMC has 3 systems; append the path of one to the address: /redfish/v1/Systems/1, /redfish/v1/Systems/other-1, /redfish/v1/Systems/other-2"},
		{"many", "", 12, "/redfish/v1/Systems/other-5, …"},
		{"missing system", "/redfish/v1/Systems/7", 3, "no system at /redfish/v1/Systems/7; the BMC has /redfish/v1/Systems/1, /redfish/v1/Systems/other-1"},
		{"the only system is another", "/redfish/v1/Systems/7", 1, "the BMC has /redfish/v1/Systems/1"},
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

// TestSystemsShareASession checks that two systems of one BMC share a session, are read
// separately, and have an event stream each.
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
				t.Errorf("requested %s, got %s", path, id.SystemID)
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
			t.Errorf("stream %d: %+v", i, e)
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := r.PeakSessions(); n != 1 {
		t.Errorf("%d sessions at once, want 1", n)
	}
}

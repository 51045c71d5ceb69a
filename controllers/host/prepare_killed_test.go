// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
)

// A manager that crashes before or after any write loses nothing: one update, one boot for it, and
// the settings. An update with an unknown outcome that does not show is tried by the other method.
func testFirmwareKilled(t *testing.T, on *testEnv) {
	url, deaths, every := images(t), 0, deathsApart()
	for at := 1; ; at += every {
		m := prepared(t, on, "standard")
		m.lives("available", isAvailable)
		m.edit("h", func(h *infrav1.IngotHost) {
			wantFirmware("BIOS", "9.9", url+"/BIOS-9.9")(h)
			wantSetting("SriovGlobalEnable", "Enabled")(h)
		})
		died := m.livesUntilDeath(at)
		m.restart(0)
		m.lives("available", isAvailable)
		bios, _ := m.lab.Firmware()
		if updates := m.count("SimpleUpdate") + m.count("Push") + m.count("HTTPPush"); bios != "9.9" || m.setting("SriovGlobalEnable") != "Enabled" || updates != 1 {
			t.Fatalf("after a death at write %d: version %s, setting %s, actions %q", at, bios, m.setting("SriovGlobalEnable"), m.lab.Actions())
		}
		m.clear()
		_ = m.lab.Close()
		if !died {
			break
		}
		deaths++
	}
	if deaths*every < 40 {
		t.Errorf("only %d deaths: an update has more writes than that", deaths)
	}
	t.Logf("%d deaths", deaths)
}

// livesUntilDeath runs a process that crashes at its n-th write.
func (m *simHost) livesUntilDeath(n int) bool {
	m.t.Helper()
	m.restart(0)
	m.mort = &crashing{at: n}
	pool := bmc.NewPool(func(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
		conn, err := redfish.Dial(ctx, target)
		return &crashingWrites{Conn: conn, crashing: m.mort}, err
	}, bmc.PoolOptions{Pause: bmc.PauseOptions{After: -1}})
	m.t.Cleanup(func() { _ = pool.Close(context.Background()) })
	m.Reconciler.BMC, m.Reconciler.Client = pool, &writingClient{Client: m.api, crashing: m.mort}
	for range 60 {
		m.tick()
		if m.mort.dead() || isAvailable(m.get("h")) {
			break
		}
		m.agent()
		m.clock.Step(31 * time.Second)
	}
	return m.mort.dead()
}

// writingClient is a process's way to the API server, of which only writes count.
type writingClient struct {
	client.Client
	*crashing
}

func (c *writingClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.call(func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

func (c *writingClient) Status() client.SubResourceWriter {
	return &crashingStatus{c.Client.Status(), c.crashing}
}

// crashingWrites is a process's session with a BMC, of which only writes count.
type crashingWrites struct {
	bmc.Conn
	*crashing
}

func (c *crashingWrites) SetPower(ctx context.Context, action bmc.PowerAction) error {
	return c.call(func() error { return c.Conn.SetPower(ctx, action) })
}

func (c *crashingWrites) SetSettings(ctx context.Context, values map[string]string) error {
	return c.call(func() error { return c.Conn.SetSettings(ctx, values) })
}

func (c *crashingWrites) UpdateFirmware(ctx context.Context, what bmc.Update) (task bmc.Task, err error) {
	err = c.call(func() (err error) {
		task, err = c.Conn.UpdateFirmware(ctx, what)
		return err
	})
	return task, err
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

// TestScenes plays the scenes, each in a row of servers of its own.
func TestScenes(t *testing.T) {
	needs.Full(t)
	needs.ClusterAPI(t)
	scenes := []struct {
		name string
		play func(*testing.T, *scene)
	}{
		// The row of the last has a gate (hold).
		{"no-spare", noSpare}, {"topology", topology}, {"surge", surge}, {"mistaken", mistaken}, {"waiting", waiting}, {"failing", failing}, {"healing", healing}, {"deleted", deleted},
	}
	joins, hung := &gate{}, &hung{}
	world := site.NewWorld(t, site.WorldConfig{
		Racks: len(scenes), ServersPerRack: 6,
		Simulate: func(name string, c *server.Config) {
			if strings.HasPrefix(name, fmt.Sprintf("r%d-", len(scenes))) {
				hold(name, c, joins)
			}
			c.System = hung.before(name, c.System)
		},
	})
	// An image that does not come must not cost a host its good name before the scene is over.
	s := site.Start(t, site.Config{World: world, ManagerArgs: []string{"--agent-deadline=2m"}})
	for i, played := range scenes {
		t.Run(played.name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			played.play(t, &scene{Site: s.In(t, played.name), row: i + 1, joins: joins, hung: hung})
			t.Logf("scene %s: %s", played.name, time.Since(began).Round(time.Second))
		})
	}
}

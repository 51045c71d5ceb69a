// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/test/simulated"
)

// TestReplicasTogether: two boot servers answer everything, at once, and no server is
// the worse for it.
func TestReplicasTogether(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{Servers: 8, Replicas: 2, Change: func(i int, c *server.Config) { c.PlainPXE = i%2 == 0 }})
	for i := range r.Units {
		r.Order(i, agentapi.Install, fmt.Sprint("instance-", i), 1)
		r.NetworkBoot(t, i)
	}
	for i, u := range r.Units {
		waitFor(t, u, "first boot", scrubbed(u))
		wantInstalled(t, r, u, server.Install{InstanceID: fmt.Sprint("instance-", i), Attempt: 1})
		if n := len(r.Manager.Reports(u.Serial)); n != 1 {
			t.Errorf("%s: %d reports, want 1", u.Serial, n)
		}
	}
}

// TestReplicaDies: the boot server dies after it has sent so much. The host controller
// boots the server again by the network where no agent came; an agent finds the other
// replica by itself.
func TestReplicaDies(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after int64
		pxe   bool
		// alone: the agent needs no other boot.
		alone bool
	}{
		{"in the middle of the loader, by TFTP", 30_000, true, false},
		{"in the middle of the kernel", 100_000, false, false},
		{"in the middle of the initramfs", 500_000, false, false},
		{"in the middle of the image", 1_500_000, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := simulated.NewRack(t, simulated.Options{Replicas: 2, Change: func(_ int, c *server.Config) {
				c.PlainPXE, c.CallTimeout = tc.pxe, time.Second
			}})
			u := r.Units[0]
			for _, replica := range r.Replicas {
				replica.BlowAfter(tc.after) // one is chosen; the other must not blow, too
			}
			dead := func() *simulated.Replica {
				for i, replica := range r.Replicas {
					if replica.Dead() {
						r.Replicas[1-i].BlowAfter(0)
						return replica
					}
				}
				return nil
			}
			r.Order(0, agentapi.Install, "instance-1", 1)
			r.NetworkBoot(t, 0)
			waitFor(t, u, "the death of a replica", func() bool { return dead() != nil })
			if !tc.alone {
				r.NetworkBoot(t, 0) // as the host controller does when no agent came in time
			}
			waitFor(t, u, "first boot", scrubbed(u))
			wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
			if n := len(r.Manager.Sessions(u.Serial)); tc.alone && n != 1 {
				t.Errorf("%d sessions, want the one", n)
			}
		})
	}
}

// TestStaleReplica: a replica that still believes in an order has an installed server
// boot the agent, as often as the firmware asks it, and nothing is written (I5): the
// manager, asked live, sends the agent away. When the replica sees again, the server
// boots its disk by itself.
func TestStaleReplica(t *testing.T) {
	r := simulated.NewRack(t, simulated.Options{Replicas: 2})
	u := r.Units[0]
	r.Order(0, agentapi.Install, "instance-1", 1)
	r.Replicas[1].Freeze()
	r.NetworkBoot(t, 0)
	waitFor(t, u, "first boot", scrubbed(u))
	before, writes := count(u, server.EventSystem), u.Server.Disks()[0].CompleteWrites()
	r.Plan(0, pxe.LocalDisk)
	r.Replicas[0].Kill()
	r.NetworkBoot(t, 0)
	waitFor(t, u, "useless boots of the agent", func() bool { return len(r.Manager.Sessions(u.Serial)) >= 3 })
	r.Replicas[1].Thaw()
	waitFor(t, u, "the installed system", func() bool { return count(u, server.EventSystem) > before })
	if n := len(writes); n != 1 || len(u.Server.Disks()[0].CompleteWrites()) != 1 || len(r.Manager.Reports(u.Serial)) != 1 {
		t.Errorf("written %v, then %v; %d reports", writes, u.Server.Disks()[0].CompleteWrites(), len(r.Manager.Reports(u.Serial)))
	}
	wantInstalled(t, r, u, server.Install{InstanceID: "instance-1", Attempt: 1})
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// This file sees that an order reaches the server that it was decided for. A BMC may be
// swapped for another server's between two polls, and no call fails that would tell; but
// the other knows nothing of our session. So a new session is a reason to ask once more
// whose BMC this is (docs/decisions/0143), and inventory.WrongServer judges.

// errOtherServer: nothing was sent; the next reconcile reads all of it anew. ErrBusy,
// since that is what it is for the caller: the BMC did nothing, and is asked again soon.
var errOtherServer = fmt.Errorf("%w: with a new session it shows another server than before; that is looked at first", bmc.ErrBusy)

// sessionOf is the number of the connection's session; 0: it has none.
func sessionOf(conn bmc.Conn) uint64 {
	if sessioned, can := conn.(bmc.Sessioned); can {
		return sessioned.Session()
	}
	return 0
}

func identityOf(id bmc.Identity) inventory.SystemIdentity {
	return inventory.SystemIdentity{UUID: id.UUID, SerialNumber: id.Serial}
}

// isServer reports whether the BMC still reports the identity that it reported before. One
// that cannot report any is believed, and one that reports none before its password was
// changed: it takes nothing else either.
func isServer(ctx context.Context, conn bmc.Conn, before inventory.SystemIdentity) (bool, error) {
	now, err := conn.Identity(ctx)
	if errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrPasswordChange) {
		return true, nil
	}
	return identityOf(now) == before, err
}

// lookedAt sees whether the BMC is still that of the server that it told before, where it
// may be another's: with a new session, and after it was away. All its NICs are read anew
// only where it is another's: a slow BMC may answer every request in time, and not that
// many of them. One that tells no identity is known by its NICs alone.
func (c contact) lookedAt(ctx context.Context, conn bmc.Conn) (contact, error) {
	session := sessionOf(conn)
	if !c.unsure && session == c.session {
		return c, nil
	}
	same, err := isServer(ctx, conn, c.identity)
	if err != nil {
		return c, err
	}
	if c.unsure && c.identity == (inventory.SystemIdentity{}) {
		same = false
	}
	c.session, c.listed, c.unsure = session, same, false
	return c, nil
}

// relistAfter is how often a BMC is asked again for its NICs where the boot MAC address is
// not among them.
const relistAfter = 10 * time.Minute

// misses: the BMC lists NICs, and this is none of them.
func (c contact) misses(mac string) bool {
	return len(c.macs) > 0 && !slices.Contains(c.macs, mac)
}

// soughtAgain lists the NICs anew where the boot MAC address is not among them: a card may
// have been put in since, and many BMCs list one only when the server has been on with it.
// If that fails, or shows none, the old list stands: a slow BMC is none the worse for it, and
// one that leaves them out for once does not prove that the server is the right one. What
// another server's BMC lists counts for nothing until that one is looked at (I8).
func (c contact) soughtAgain(ctx context.Context, conn bmc.Conn, mac string, now time.Time) contact {
	if !c.misses(mac) || mac == c.sought && now.Before(c.soughtAt.Add(relistAfter)) {
		return c
	}
	c.sought, c.soughtAt = mac, now
	facts, err := conn.Inventory(ctx)
	switch {
	case errors.Is(err, bmc.ErrUnfinished):
		c.soughtAt = time.Time{} // the next poll goes on
	case err != nil || len(facts.MACs) == 0:
	case identityOf(facts.Identity) != c.identity:
		c.listed = false
	default:
		c.macs = facts.MACs
	}
	return c
}

type guardKey struct{}

// guard looks at the server before anything is sent by another session than the one by
// which it was seen.
type guard struct {
	target  bmc.Target
	session uint64
	check   func(ctx context.Context, conn bmc.Conn) error
	// other is told that it was another server. Only the worker's own calls tell it: what
	// goes on beside it leaves the worker's view alone.
	other func()
}

// guards has calls guarded, where the context wants that of the target's.
func guards(ctx context.Context, target bmc.Target, beside bool, calls func(context.Context, bmc.Conn) error) func(context.Context, bmc.Conn) error {
	g, guarded := ctx.Value(guardKey{}).(guard)
	if !guarded || g.target.Address != target.Address {
		return calls
	}
	if beside {
		g.other = func() {}
	}
	return func(ctx context.Context, conn bmc.Conn) error {
		g.on(conn)
		return calls(ctx, conn)
	}
}

// on guards a connection.
func (g guard) on(conn bmc.Conn) {
	if sessioned, can := conn.(bmc.Sessioned); can && g.session != 0 {
		sessioned.Guard(g.session, func(ctx context.Context) error {
			err := g.check(ctx, conn)
			if errors.Is(err, errOtherServer) {
				g.other()
			}
			return err
		})
	}
}

// onServer guards the calls that execute a decision, and those that go on beside the
// worker with the values of its context.
func (r *Reconciler) onServer(ctx context.Context, host *infrav1.IngotHost, seen *observation) context.Context {
	if host.Spec.BMC == nil {
		return ctx
	}
	key, before := keyOf(host), seen.known.identity
	return context.WithValue(ctx, guardKey{}, guard{
		target: seen.target, session: seen.known.session,
		check: func(ctx context.Context, conn bmc.Conn) error {
			same, err := isServer(ctx, conn, before)
			if err == nil && !same {
				r.contacts.change(key, func(c *contact) { c.listed = false })
				err = errOtherServer
			}
			return err
		},
		other: func() { seen.known.listed = false },
	})
}

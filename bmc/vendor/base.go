// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// powerReader, powerSetter and booter are interfaces of the drivers. bmclib's bool results are less
// reliable than its errors: a requested shutdown returns false.
type powerReader interface {
	PowerStateGet(ctx context.Context) (string, error)
}

type powerSetter interface {
	PowerSet(ctx context.Context, state string) (bool, error)
}

type booter interface {
	BootDeviceSet(ctx context.Context, device string, persistent, efi bool) (bool, error)
}

// base is shared by the connections that do not use Redfish. It replaces a dead link before the next
// call.
type base struct {
	bmc.Unsupported

	spec   driverSpec
	target bmc.Target
	link   *link
}

// callDriver makes one call of a driver that has the interface T.
func callDriver[T any](ctx context.Context, c *base, kind callKind, what string, f func(ctx context.Context, lib T) error) error {
	if c.link.dead {
		l, err := dialLink(ctx, c.spec, c.target)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		c.link = l
	}
	l := c.link
	return l.call(ctx, kind, what, func(ctx context.Context) error {
		lib, ok := l.lib.(T)
		if !ok {
			return unsupported("driver %s cannot do that", c.spec.name)
		}
		return f(ctx, lib)
	})
}

// readDriver is callDriver for a read with a result.
func readDriver[T, R any](ctx context.Context, c *base, what string, f func(ctx context.Context, lib T) (R, error)) (R, error) {
	result := make(chan R, 1) // the goroutine of a call may outlive the call
	err := callDriver(ctx, c, read, what, func(ctx context.Context, lib T) error {
		r, err := f(ctx, lib)
		result <- r
		return err
	})
	if err != nil {
		var none R
		return none, err
	}
	return <-result, nil
}

// PowerState implements bmc.Power.
func (c *base) PowerState(ctx context.Context) (bmc.PowerState, error) {
	state, err := readDriver(ctx, c, "read power state", func(ctx context.Context, lib powerReader) (string, error) { return lib.PowerStateGet(ctx) })
	if err != nil {
		return bmc.PowerUnknown, err
	}
	switch strings.ToLower(strings.TrimSpace(state)) {
	case "on":
		return bmc.PowerOn, nil
	case "off":
		return bmc.PowerOff, nil
	}
	return bmc.PowerUnknown, nil
}

// SetPower implements bmc.Power.
func (c *base) SetPower(ctx context.Context, action bmc.PowerAction) error {
	name, ok := powerNames[action]
	if !ok {
		return fmt.Errorf("set power: %w", unsupported("driver %s has no action %s", c.spec.name, bmc.Shorten(string(action), 40)))
	}
	return callDriver(ctx, c, write, "set power "+string(action), func(ctx context.Context, lib powerSetter) error {
		_, err := lib.PowerSet(ctx, name)
		return err
	})
}

// BootOverride implements bmc.BootDevice.
func (c *base) BootOverride(context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, fmt.Errorf("read boot override: %w", unsupported("driver %s can set but not read it", c.spec.name))
}

// Identity implements bmc.Inventorier.
func (c *base) Identity(context.Context) (bmc.Identity, error) {
	return bmc.Identity{}, fmt.Errorf("read identity: %w", unsupported("driver %s has no data about the server", c.spec.name))
}

// Inventory implements bmc.Inventorier.
func (c *base) Inventory(context.Context) (bmc.Inventory, error) {
	return bmc.Inventory{}, fmt.Errorf("read inventory: %w", unsupported("driver %s has no data about the server", c.spec.name))
}

// Close implements bmc.Conn. It reaches the BMC even if ctx has ended.
func (c *base) Close(ctx context.Context) error { return c.link.close(ctx) }

// rpcConn is a connection with a webhook that switches a machine.
type rpcConn struct{ *base }

func newRPC(c *base) bmc.Conn { return rpcConn{c} }

// powerNames are bmclib's names of the power actions, which the webhook gets unchanged.
var powerNames = map[bmc.PowerAction]string{
	bmc.ActionOn: "on", bmc.ActionForceOff: "off", bmc.ActionGracefulOff: "soft", bmc.ActionForceRestart: "reset",
}

// SetBootOverride implements bmc.BootDevice. The protocol can neither read the override back nor keep
// the mode: an empty mode means UEFI.
func (c rpcConn) SetBootOverride(ctx context.Context, o bmc.BootOverride) error {
	const what = "set boot override"
	device, ok := map[bmc.BootTarget]string{
		bmc.BootPXE: "pxe", bmc.BootDisk: "disk", bmc.BootCD: "cdrom", bmc.BootSetup: "bios", bmc.BootNone: "none",
	}[o.Target]
	if !ok {
		return fmt.Errorf("%s: %w", what, unsupported("the protocol has no target %s", bmc.Shorten(string(o.Target), 40)))
	}
	return callDriver(ctx, c.base, write, what, func(ctx context.Context, lib booter) error {
		_, err := lib.BootDeviceSet(ctx, device, o.Persistent, o.Mode != bmc.ModeBIOS)
		return err
	})
}

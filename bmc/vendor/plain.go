// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// powerReader, powerSetter and booter are what drivers offer; the bools of bmclib's say
// less than their errors: asking for a shutdown returns false.
type powerReader interface {
	PowerStateGet(ctx context.Context) (string, error)
}

type powerSetter interface {
	PowerSet(ctx context.Context, state string) (bool, error)
}

type booter interface {
	BootDeviceSet(ctx context.Context, device string, persistent, efi bool) (bool, error)
}

// base is what the connections that are not over Redfish share. A link that died
// is replaced before the next call.
type base struct {
	bmc.Unsupported

	maker  maker
	target bmc.Target
	link   *link
}

// with makes one call of the library.
func (c *base) with(ctx context.Context, kind callKind, what string, f func(ctx context.Context, lib library) error) error {
	if c.link.dead {
		l, err := dialLink(ctx, c.maker, c.target)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		c.link = l
	}
	l := c.link
	return l.call(ctx, kind, what, func(ctx context.Context) error { return f(ctx, l.lib) })
}

// on is with for a driver that must have an interface.
func on[T any](ctx context.Context, c *base, kind callKind, what string, f func(ctx context.Context, lib T) error) error {
	return c.with(ctx, kind, what, func(ctx context.Context, lib library) error {
		able, ok := lib.(T)
		if !ok {
			return refused("the driver %s has no such call", c.maker.name)
		}
		return f(ctx, able)
	})
}

// PowerState implements bmc.Power.
func (c *base) PowerState(ctx context.Context) (bmc.PowerState, error) {
	answer := make(chan string, 1) // the call may outlive this one
	err := on(ctx, c, read, "read power state", func(ctx context.Context, lib powerReader) error {
		told, err := lib.PowerStateGet(ctx)
		answer <- told
		return err
	})
	if err != nil {
		return bmc.PowerUnknown, err
	}
	switch strings.ToLower(strings.TrimSpace(<-answer)) {
	case "on":
		return bmc.PowerOn, nil
	case "off":
		return bmc.PowerOff, nil
	}
	return bmc.PowerUnknown, nil
}

// SetPower implements bmc.Power.
func (c *base) SetPower(ctx context.Context, action bmc.PowerAction) error {
	word, ok := c.maker.words[action]
	if !ok {
		return fmt.Errorf("set power: %w", refused("the driver %s has no way to do %s", c.maker.name, bmc.Shorten(string(action), 40)))
	}
	return on(ctx, c, write, "set power "+string(action), func(ctx context.Context, lib powerSetter) error {
		_, err := lib.PowerSet(ctx, word)
		return err
	})
}

// BootOverride implements bmc.BootDevice.
func (c *base) BootOverride(context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, fmt.Errorf("read boot override: %w", refused("the driver %s can set it and not read it", c.maker.name))
}

// Identity implements bmc.Inventorier.
func (c *base) Identity(context.Context) (bmc.Identity, error) {
	return bmc.Identity{}, fmt.Errorf("read identity: %w", refused("the driver %s tells nothing of the server", c.maker.name))
}

// Inventory implements bmc.Inventorier.
func (c *base) Inventory(context.Context) (bmc.Inventory, error) {
	return bmc.Inventory{}, fmt.Errorf("read inventory: %w", refused("the driver %s tells nothing of the server", c.maker.name))
}

// Close implements bmc.Conn. It also reaches the BMC when ctx has ended.
func (c *base) Close(ctx context.Context) error { return c.link.close(ctx) }

// rpcConn is a webhook that switches a machine.
type rpcConn struct{ *base }

func newRPC(c *base) bmc.Conn { return rpcConn{c} }

// wordsRPC are bmclib's words, which the consumer gets as they are.
func wordsRPC() map[bmc.PowerAction]string {
	return map[bmc.PowerAction]string{
		bmc.ActionOn: "on", bmc.ActionForceOff: "off", bmc.ActionGracefulOff: "soft", bmc.ActionForceRestart: "reset",
	}
}

// SetBootOverride implements bmc.BootDevice. Nothing is read back: the protocol
// has no way. Without a mode, UEFI is asked for: "as it is" cannot be said either.
func (c rpcConn) SetBootOverride(ctx context.Context, o bmc.BootOverride) error {
	const what = "set boot override"
	device, ok := map[bmc.BootTarget]string{
		bmc.BootPXE: "pxe", bmc.BootDisk: "disk", bmc.BootCD: "cdrom", bmc.BootSetup: "bios", bmc.BootNone: "none",
	}[o.Target]
	if !ok {
		return fmt.Errorf("%s: %w", what, refused("the protocol has no word for %s", bmc.Shorten(string(o.Target), 40)))
	}
	return on(ctx, c.base, write, what, func(ctx context.Context, lib booter) error {
		_, err := lib.BootDeviceSet(ctx, device, o.Persistent, o.Mode != bmc.ModeBIOS)
		return err
	})
}

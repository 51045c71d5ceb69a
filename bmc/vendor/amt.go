// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/bmc-toolbox/bmclib/v2/providers/intelamt"

	"github.com/ingot-metal/ingot/bmc"
)

// amt is the library's driver with what it does not look at. The library asks for
// the gentlest way off that AMT offers, whatever it was asked for itself, and takes
// any answer for a success.
type amt struct {
	*intelamt.Conn
	// only are the power states that the call in progress may choose from; nil:
	// all.
	only atomic.Pointer[[]int]
}

func newAMTLibrary(l *link) *amt {
	host, port := l.relay.addr()
	a := &amt{Conn: intelamt.New(host, l.target.Username, l.target.Password.Reveal(),
		intelamt.WithHostScheme("https"), intelamt.WithPort(uint32(port)))}
	l.wire.alter = a.alter
	return a
}

var (
	// requestable is one state that CIM_AssociatedPowerManagementService offers.
	requestable = regexp.MustCompile(`<(?:[\w.-]+:)?AvailableRequestedPowerStates(?:\s[^<>]*)?>\s*(\d{1,5})\s*</(?:[\w.-]+:)?AvailableRequestedPowerStates>`)
	// returned is what a method answered with.
	returned = regexp.MustCompile(`<(?:[\w.-]+:)?ReturnValue(?:\s[^<>]*)?>\s*(\d{1,10})\s*</`)
)

// The values of ReturnValue (CIM_PowerManagementService.RequestPowerStateChange,
// CIM_BootService.SetBootConfigRole) that mean something to callers.
const (
	returnedDone   = "0"
	returnedInUse  = "6"
	returnedJobRun = "4096"
)

// alter takes out of an answer the power states that are not meant, and tells a
// method that failed.
func (a *amt) alter(body []byte) ([]byte, error) {
	if m := returned.FindSubmatch(body); m != nil {
		switch value := string(m[1]); value {
		case returnedDone, returnedJobRun:
		case returnedInUse:
			return nil, fmt.Errorf("%w: AMT answered ReturnValue %s", bmc.ErrBusy, value)
		default:
			return nil, fmt.Errorf("%w: AMT answered ReturnValue %s", bmc.ErrNotSupported, value)
		}
	}
	only := a.only.Load()
	if only == nil {
		return body, nil
	}
	return requestable.ReplaceAllFunc(body, func(element []byte) []byte {
		state, err := strconv.Atoi(string(requestable.FindSubmatch(element)[1]))
		if err != nil || !slices.Contains(*only, state) {
			return nil
		}
		return element
	}), nil
}

// amtConn is a machine with Intel AMT.
type amtConn struct{ *base }

func newAMT(c *base) bmc.Conn { return amtConn{c} }

func wordsAMT() map[bmc.PowerAction]string {
	return map[bmc.PowerAction]string{
		bmc.ActionOn: "on", bmc.ActionForceOff: "off", bmc.ActionGracefulOff: "off",
		bmc.ActionForceRestart: "cycle", bmc.ActionGracefulRestart: "cycle",
	}
}

// statesAMT are the values of RequestPowerStateChange.PowerState that an action may
// end in (CIM 2.3x, CIM_PowerManagementService): the graceful ones AMT offers
// only while its agent runs in the operating system.
func statesAMT(action bmc.PowerAction) []int {
	switch action {
	case bmc.ActionOn:
		return []int{2}
	case bmc.ActionForceOff:
		return []int{8, 6} // off soft (by the firmware), off hard
	case bmc.ActionGracefulOff:
		return []int{12, 13} // off soft and hard, graceful
	case bmc.ActionForceRestart:
		return []int{5, 9, 10} // cycle soft, cycle hard, bus reset
	case bmc.ActionGracefulRestart:
		return []int{14, 15, 16} // bus reset, cycle soft and hard, graceful
	}
	return nil
}

// SetPower implements bmc.Power.
func (c amtConn) SetPower(ctx context.Context, action bmc.PowerAction) error {
	word, ok := c.maker.words[action]
	if !ok {
		return c.base.SetPower(ctx, action)
	}
	return on(ctx, c.base, write, "set power "+string(action), func(ctx context.Context, a *amt) error {
		states := statesAMT(action)
		a.only.Store(&states)
		defer a.only.Store(nil)
		_, err := a.PowerSet(ctx, word)
		return err
	})
}

// SetBootOverride implements bmc.BootDevice: the network, for the next boot. AMT
// tells neither this nor the mode, and changes no mode.
func (c amtConn) SetBootOverride(ctx context.Context, o bmc.BootOverride) error {
	const what = "set boot override"
	if o.Target != bmc.BootPXE || o.Persistent {
		return fmt.Errorf("%s: %w", what, refused("AMT boots from the network, once, and from nothing else"))
	}
	err := on(ctx, c.base, write, what, func(ctx context.Context, a *amt) error {
		_, err := a.BootDeviceSet(ctx, "pxe", false, false)
		return err
	})
	if err == nil && o.Mode != "" {
		return fmt.Errorf("%s: %w: the next boot is from the network, in the mode that the firmware has: AMT cannot change it", what, bmc.ErrNotApplied)
	}
	return err
}

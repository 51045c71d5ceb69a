// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// restartWindow is how long BMCs may still report Off after a restart (field notes, stale power
// state).
const restartWindow = 15 * time.Second

// Chassis Control (§28.3 table 28-4).
const (
	controlOff   = 0x00
	controlOn    = 0x01
	controlCycle = 0x02
	controlReset = 0x03
	controlNMI   = 0x04 // pulse the diagnostic interrupt
	controlSoft  = 0x05
)

// chassisStatus is Get Chassis Status (§28.2).
type chassisStatus struct{ power, last, misc byte }

func (s chassisStatus) on() bool { return s.power&0x01 != 0 }

func (c *conn) chassisStatus(ctx context.Context) (chassisStatus, error) {
	data, err := c.run(ctx, command{what: "read chassis status", netFn: netFnChassis, code: 0x01, minLen: 3})
	if err != nil {
		return chassisStatus{}, err
	}
	return chassisStatus{power: data[0], last: data[1], misc: data[2]}, nil
}

// PowerState implements bmc.Power. An Off within 15 seconds after a restart is PowerUnknown,
// because it may be a part of the restart.
func (c *conn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	status, err := c.chassisStatus(ctx)
	if err != nil {
		return bmc.PowerUnknown, err
	}
	return c.powerOf(status), nil
}

func (c *conn) powerOf(status chassisStatus) bmc.PowerState {
	switch {
	case status.on():
		return bmc.PowerOn
	case !c.restarted.IsZero() && c.now().Sub(c.restarted) < restartWindow:
		return bmc.PowerUnknown
	}
	return bmc.PowerOff
}

// SetPower implements bmc.Power. It sends the action once, whatever the current state. IPMI
// cannot ask an operating system to restart.
func (c *conn) SetPower(ctx context.Context, action bmc.PowerAction) error {
	var controls []byte
	settled := bmc.PowerUnknown
	switch action {
	case bmc.ActionOn:
		controls, settled = []byte{controlOn}, bmc.PowerOn
	case bmc.ActionForceOff:
		controls, settled = []byte{controlOff}, bmc.PowerOff
	case bmc.ActionGracefulOff:
		controls, settled = []byte{controlSoft}, bmc.PowerOff
	case bmc.ActionForceRestart:
		controls = []byte{controlReset, controlCycle}
	case bmc.ActionNMI:
		controls = []byte{controlNMI}
	default:
		return fmt.Errorf("power action %s: %w: IPMI has no such Chassis Control (§28.3)", action, bmc.ErrNotSupported)
	}
	var err error
	for _, control := range controls {
		c.restarted = time.Time{}
		if action == bmc.ActionForceRestart {
			c.restarted = c.now()
		}
		_, err = c.run(ctx, command{
			what: fmt.Sprintf("power action %s", action), netFn: netFnChassis, code: 0x02, data: []byte{control}, write: true,
		})
		// Try the next control only if this one does not exist: nothing has happened.
		if !isCode(err, 0xc1, 0xc2, 0xcc, 0xd6) {
			break
		}
	}
	if isCode(err, 0xcc, 0xd5) && settled != bmc.PowerUnknown {
		// Some BMCs refuse an action that matches the current state. A busy BMC (C0h) does
		// not report that: see refusesWhatIsSo of package redfish.
		if now, readErr := c.PowerState(ctx); readErr == nil && now == settled {
			return nil
		}
	}
	return err
}

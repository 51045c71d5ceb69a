// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ingot-metal/ingot/bmc"
)

// PowerState implements bmc.Power.
func (c *conn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	c.transport.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.PowerUnknown, fmt.Errorf("read power state: %w", err)
	}
	return powerState(system.PowerState)
}

// Vitals implements bmc.Pulse, by one read of the system.
func (c *conn) Vitals(ctx context.Context) (bmc.Vitals, error) {
	c.transport.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.Vitals{}, fmt.Errorf("read power state and health: %w", err)
	}
	power, err := powerState(system.PowerState)
	return bmc.Vitals{Power: power, Health: system.Status.sum()}, err
}

func powerState(state redfish.PowerState) (bmc.PowerState, error) {
	switch state {
	case redfish.OnPowerState:
		return bmc.PowerOn, nil
	case redfish.OffPowerState:
		return bmc.PowerOff, nil
	case redfish.PoweringOnPowerState, redfish.PoweringOffPowerState, redfish.PausedPowerState:
		return bmc.PowerUnknown, nil
	}
	return bmc.PowerUnknown, fmt.Errorf("read power state: %w: PowerState is %q", bmc.ErrProtocol, shorten(string(state), 40))
}

// SetPower implements bmc.Power. What is wanted is always sent, even if the BMC
// shows it already: the state it shows may be stale, and a power-off that was
// not sent fences nothing (I7).
func (c *conn) SetPower(ctx context.Context, action bmc.PowerAction) error {
	c.transport.begin(ctx)
	fail := func(err error) error { return fmt.Errorf("power action %s: %w", action, err) }
	candidates, settled := resetsFor(action)
	if len(candidates) == 0 {
		return fail(fmt.Errorf("%w: no such action", bmc.ErrNotSupported))
	}
	system, err := c.systemForWrite()
	if err != nil {
		return fail(err)
	}
	if system.Actions.Reset == nil || system.Actions.Reset.Target == "" {
		return fail(fmt.Errorf("%w: the system has no Reset action", bmc.ErrNotSupported))
	}
	allowed, err := c.allowedResets(system)
	if err != nil {
		return fail(err)
	}
	reset, ok := choose(candidates, allowed)
	if !ok {
		return fail(fmt.Errorf("%w: wants %s, the system allows %s", bmc.ErrNotSupported,
			candidates[0], shorten(strings.Join(allowed, ", "), 200)))
	}
	err = c.send(http.MethodPost, system.Actions.Reset.Target, map[string]any{"ResetType": reset}, nil)
	if _, answered := refusal(err); answered && settled != "" && system.PowerState == settled &&
		(errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrBusy)) {
		// Many refuse what is so already, with 400 or 409.
		if now, readErr := c.readSystem(); readErr == nil && now.PowerState == settled {
			return nil
		}
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// resetsFor lists the reset types for an action, best first, and the state in
// which the action has nothing to do (none for restarts). A graceful action has
// no fallback: whether to be rude is policy. PushPowerButton is none either: it
// does the opposite of what is wanted when the state shown is stale.
func resetsFor(action bmc.PowerAction) ([]redfish.ResetType, redfish.PowerState) {
	switch action {
	case bmc.ActionOn:
		return []redfish.ResetType{redfish.OnResetType, redfish.ForceOnResetType}, redfish.OnPowerState
	case bmc.ActionGracefulOff:
		return []redfish.ResetType{redfish.GracefulShutdownResetType}, redfish.OffPowerState
	case bmc.ActionForceOff:
		return []redfish.ResetType{redfish.ForceOffResetType}, redfish.OffPowerState
	case bmc.ActionGracefulRestart:
		return []redfish.ResetType{redfish.GracefulRestartResetType}, ""
	case bmc.ActionForceRestart:
		return []redfish.ResetType{redfish.ForceRestartResetType, redfish.PowerCycleResetType}, ""
	}
	return nil, ""
}

// choose picks the best candidate; where the BMC does not tell what it allows,
// the first.
func choose(candidates []redfish.ResetType, allowed []string) (redfish.ResetType, bool) {
	if len(allowed) == 0 {
		return candidates[0], true
	}
	for _, c := range candidates {
		if slices.Contains(allowed, string(c)) {
			return c, true
		}
	}
	return "", false
}

// allowedResets reads what the Reset action takes: in the system itself, or in
// its ActionInfo. Empty: the BMC does not tell.
func (c *conn) allowedResets(system *systemResource) ([]string, error) {
	reset := system.Actions.Reset
	if len(reset.Allowed) > 0 || reset.ActionInfo == "" {
		return reset.Allowed, nil
	}
	if c.resetTypes != nil {
		return c.resetTypes, nil
	}
	var info actionInfoResource
	if err := c.get(reset.ActionInfo, &info); err != nil {
		if isMissing(err) {
			return nil, nil
		}
		return nil, err
	}
	for _, p := range info.Parameters {
		if p.Name == "ResetType" {
			c.resetTypes = p.Allowed
		}
	}
	return c.resetTypes, nil
}

// readSystem reads the system.
func (c *conn) readSystem() (*systemResource, error) {
	system := &systemResource{}
	err := c.get(c.system, system)
	if e, ok := refusal(err); ok && e.status == http.StatusNotFound {
		return nil, c.noSuchSystem()
	}
	if err != nil {
		return nil, err
	}
	return system, nil
}

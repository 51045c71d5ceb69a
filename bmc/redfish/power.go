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
	c.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.PowerUnknown, fmt.Errorf("read power state: %w", err)
	}
	return c.powerState(system.PowerState)
}

// Vitals implements bmc.Pulse, by one read of the system.
func (c *conn) Vitals(ctx context.Context) (bmc.Vitals, error) {
	c.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.Vitals{}, fmt.Errorf("read power state and health: %w", err)
	}
	power, err := c.powerState(system.PowerState)
	return bmc.Vitals{Power: power, Health: system.Status.sum()}, err
}

func (c *conn) powerState(state redfish.PowerState) (bmc.PowerState, error) {
	switch state {
	case redfish.OnPowerState, redfish.PoweringOnPowerState, redfish.PoweringOffPowerState, redfish.PausedPowerState:
		return bmc.PowerOn, nil
	case redfish.OffPowerState:
		return bmc.PowerOff, nil
	}
	return bmc.PowerUnknown, fmt.Errorf("read power state: %w: PowerState is %q", bmc.ErrProtocol, c.short(string(state), 40))
}

// SetPower implements bmc.Power. What is wanted is always sent, even if the BMC
// shows it already: the state it shows may be stale, and a power-off that was
// not sent fences nothing (I7).
func (c *conn) SetPower(ctx context.Context, action bmc.PowerAction) error {
	c.begin(ctx)
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
	usable := choose(candidates, allowed, system.PowerState)
	if len(usable) == 0 {
		return fail(fmt.Errorf("%w: wants %s, the system allows %s", bmc.ErrNotSupported,
			candidates[0].reset, c.short(strings.Join(allowed, ", "), 200)))
	}
	for i, candidate := range usable {
		if i > 0 && candidate.only != "" { // the state may have changed, or was old
			if now, readErr := c.readSystem(); readErr != nil || now.PowerState != candidate.only {
				break
			}
		}
		err = c.send(http.MethodPost, system.Actions.Reset.Target, map[string]any{"ResetType": candidate.reset}, nil)
		if err == nil {
			return nil
		}
		e, answered := refusal(err)
		if !answered {
			return fail(err) // it may have taken effect (I17)
		}
		if settled != "" && system.PowerState == settled && refusesWhatIsSo(e) {
			if now, readErr := c.readSystem(); readErr == nil && now.PowerState == settled {
				return nil
			}
		}
		if !e.refusesValue() {
			return fail(e.unclearIf(isGentle(action)))
		}
		// The BMC does not know this reset type, although it may list it, and did nothing.
	}
	return fail(err)
}

// refusesValue reports a refusal of the value that was sent, or of the whole action, rather
// than of the moment: the next value may be tried.
func (e *callError) refusesValue() bool {
	return e.status == http.StatusNotImplemented || e.status < 500 && e.has(
		"ActionNotSupported", "ActionParameterNotSupported", "ActionParameterUnknown", "ActionParameterValueError", "ActionParameterValueFormatError",
		"ActionParameterValueIncorrect", "ActionParameterValueNotInList", "ActionParameterValueTypeError", "PropertyUnknown", "PropertyValueError",
		"PropertyValueFormatError", "PropertyValueIncorrect", "PropertyValueNotInList", "PropertyValueTypeError")
}

// unclearIf returns the refusal of an action that only asks the operating system as one that
// is not understood, unless the BMC has no such action: a caller that takes it for "not
// supported" would cut the power at once.
func (e *callError) unclearIf(gentle bool) error {
	if !gentle || !errors.Is(e, bmc.ErrNotSupported) || isMissing(e) {
		return e
	}
	unclear := *e
	unclear.sentinel = bmc.ErrProtocol
	unclear.text = strings.Replace(e.text, bmc.ErrNotSupported.Error(), bmc.ErrProtocol.Error(), 1)
	return &unclear
}

// isGentle reports an action that asks the operating system.
func isGentle(action bmc.PowerAction) bool {
	return action == bmc.ActionGracefulOff || action == bmc.ActionGracefulRestart
}

// refusesWhatIsSo reports one of the refusals with which many answer an action that the
// server needs no more (0041). A BMC that is busy, starting, or has no such action has not
// said that: it may show a server off that runs, and what it did not take fences nothing
// (I7, 0178).
func refusesWhatIsSo(e *callError) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusConflict}, e.status) &&
		!saysInPOST(e.shown) && !e.has(postID)
}

// resetType is one way to an action.
type resetType struct {
	reset redfish.ResetType
	// only is the state in which it does what is wanted; empty: in any. It is sent only
	// where the BMC lists it.
	only redfish.PowerState
}

// resetsFor lists the reset types for an action, best first, and the state in
// which the action has nothing to do (none for restarts). What is gentle never becomes
// rude: whether to be is policy. The power button is the last way to what is gentle:
// pressed in the other state it does the opposite, so that it is pressed only right after
// the state was read. There is no other way to cut the power than ForceOff: what only
// asks an operating system fences nothing (I7).
func resetsFor(action bmc.PowerAction) ([]resetType, redfish.PowerState) {
	const button = redfish.PushPowerButtonResetType
	switch action {
	case bmc.ActionOn:
		return []resetType{{reset: redfish.OnResetType}, {reset: redfish.ForceOnResetType}, {button, redfish.OffPowerState}}, redfish.OnPowerState
	case bmc.ActionGracefulOff:
		return []resetType{{reset: redfish.GracefulShutdownResetType}, {button, redfish.OnPowerState}}, redfish.OffPowerState
	case bmc.ActionForceOff:
		return []resetType{{reset: redfish.ForceOffResetType}}, redfish.OffPowerState
	case bmc.ActionGracefulRestart:
		return []resetType{{reset: redfish.GracefulRestartResetType}}, ""
	case bmc.ActionForceRestart:
		return []resetType{{reset: redfish.ForceRestartResetType}, {reset: redfish.PowerCycleResetType}}, ""
	case bmc.ActionNMI:
		return []resetType{{reset: redfish.NmiResetType}}, ""
	}
	return nil, ""
}

// choose leaves the candidates that the BMC lists and that fit the state; where it does
// not tell what it allows, those that fit any state.
func choose(candidates []resetType, allowed []string, state redfish.PowerState) []resetType {
	var out []resetType
	for _, c := range candidates {
		listed := slices.Contains(allowed, string(c.reset))
		if listed && (c.only == "" || c.only == state) || len(allowed) == 0 && c.only == "" {
			out = append(out, c)
		}
	}
	return out
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
	if c.system == "" { // the BMC wanted another password first
		only, err := c.onlySystem()
		if err != nil {
			return nil, err
		}
		c.system = only
	}
	err := c.get(c.system, system)
	if e, ok := refusal(err); ok && e.status == http.StatusNotFound {
		return nil, c.noSuchSystem()
	}
	if err != nil {
		return nil, err
	}
	return system, nil
}

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

// PollState implements bmc.Poller with one read of the system.
func (c *conn) PollState(ctx context.Context) (bmc.PollState, error) {
	c.begin(ctx)
	system, err := c.readSystem()
	if err != nil {
		return bmc.PollState{}, fmt.Errorf("read power state and health: %w", err)
	}
	power, err := c.powerState(system.PowerState)
	return bmc.PollState{Power: power, Health: system.Status.overall()}, err
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

// SetPower implements bmc.Power. It always sends the action, even if the BMC already shows the
// resulting state: that state may be stale, and only a power-off that was sent fences (I7).
func (c *conn) SetPower(ctx context.Context, action bmc.PowerAction) (err error) {
	c.begin(ctx)
	defer wrap(&err, "power action "+string(action))
	candidates, settled := resets[action].types, resets[action].settled
	if len(candidates) == 0 {
		return notSupported("no such action")
	}
	system, err := c.systemForWrite()
	if err != nil {
		return err
	}
	if system.Actions.Reset == nil || system.Actions.Reset.Target == "" {
		return notSupported("the system has no Reset action")
	}
	allowed, err := c.allowedResets(system)
	if err != nil {
		return err
	}
	usable := choose(candidates, allowed, system.PowerState)
	if len(usable) == 0 {
		return notSupported(fmt.Sprintf("%s is not among the system's reset types: %s", candidates[0].reset, c.short(strings.Join(allowed, ", "), 200)))
	}
	for i, candidate := range usable {
		if i > 0 && candidate.only != "" { // the state may have changed or may have been stale
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
			return err // the action may have taken effect (I17)
		}
		if settled != "" && system.PowerState == settled && mayRefuseNoop(e) {
			if now, readErr := c.readSystem(); readErr == nil && now.PowerState == settled {
				return nil
			}
		}
		if !e.refusesValue() {
			return e.unclearIf(action == bmc.ActionGracefulOff || action == bmc.ActionGracefulRestart)
		}
		// The BMC does not know this reset type, even if it lists it, and did nothing.
	}
	return err
}

// refusesValue reports whether the BMC refused the value or the whole action, rather than the
// request at this time: the next value may be tried.
func (e *callError) refusesValue() bool {
	return e.status == http.StatusNotImplemented || e.status < 500 && e.has(
		"ActionNotSupported", "ActionParameterNotSupported", "ActionParameterUnknown", "ActionParameterValueError", "ActionParameterValueFormatError",
		"ActionParameterValueIncorrect", "ActionParameterValueNotInList", "ActionParameterValueTypeError", "PropertyUnknown", "PropertyValueError",
		"PropertyValueFormatError", "PropertyValueIncorrect", "PropertyValueNotInList", "PropertyValueTypeError")
}

// unclearIf changes ErrNotSupported to ErrProtocol for the refusal of a graceful action, unless
// the BMC has no such action: after ErrNotSupported a caller would cut the power at once.
func (e *callError) unclearIf(gentle bool) error {
	if !gentle || !errors.Is(e, bmc.ErrNotSupported) || isMissing(e) {
		return e
	}
	unclear := *e
	unclear.sentinel = bmc.ErrProtocol
	unclear.text = strings.Replace(e.text, bmc.ErrNotSupported.Error(), bmc.ErrProtocol.Error(), 1)
	return &unclear
}

// mayRefuseNoop reports whether a BMC may refuse an action like this because the server is in the
// resulting state already, as many do. A refusal because the BMC is busy, starting, or lacks the
// action is different: the state that it shows may be wrong, and nothing was fenced (I7).
func mayRefuseNoop(e *callError) bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusConflict}, e.status) &&
		!saysInPOST(e.shown) && !e.has(postID)
}

// resetType is one way to perform an action.
type resetType struct {
	reset redfish.ResetType
	// only is the state in which it has the desired effect; empty: any state. A reset type
	// with a state is sent only if the BMC lists it.
	only redfish.PowerState
}

// resets has the reset types of each action, best first, and the state in which the action has
// nothing to do (empty for restarts). A graceful action never becomes a forced one: that is policy.
// The power button, which does the opposite in the other state, is the last choice and is pressed
// only right after the state was read. Only ForceOff cuts the power: whatever asks the operating
// system fences nothing (I7).
var resets = map[bmc.PowerAction]struct {
	types   []resetType
	settled redfish.PowerState
}{
	bmc.ActionOn: {[]resetType{
		{reset: redfish.OnResetType}, {reset: redfish.ForceOnResetType}, {redfish.PushPowerButtonResetType, redfish.OffPowerState},
	}, redfish.OnPowerState},
	bmc.ActionGracefulOff: {[]resetType{
		{reset: redfish.GracefulShutdownResetType}, {redfish.PushPowerButtonResetType, redfish.OnPowerState},
	}, redfish.OffPowerState},
	bmc.ActionForceOff:        {[]resetType{{reset: redfish.ForceOffResetType}}, redfish.OffPowerState},
	bmc.ActionGracefulRestart: {[]resetType{{reset: redfish.GracefulRestartResetType}}, ""},
	bmc.ActionForceRestart:    {[]resetType{{reset: redfish.ForceRestartResetType}, {reset: redfish.PowerCycleResetType}}, ""},
	bmc.ActionNMI:             {[]resetType{{reset: redfish.NmiResetType}}, ""},
}

// choose returns the candidates that the BMC lists and that fit the state. If the BMC lists
// nothing, it returns those that fit any state.
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

// allowedResets reads the allowed ResetType values from the system or from the action's
// ActionInfo. Empty: the BMC does not list them.
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

// readSystem reads the system. It finds the system first if Dial could not.
func (c *conn) readSystem() (*systemResource, error) {
	system := &systemResource{}
	if c.system == "" { // at Dial, the BMC wanted a password change first
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

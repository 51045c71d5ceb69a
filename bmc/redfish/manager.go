// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// ResetBMC implements bmc.Resetter. It prefers a graceful restart, which the BMC answers before
// it restarts.
func (c *conn) ResetBMC(ctx context.Context) (err error) {
	c.begin(ctx)
	defer wrap(&err, "reset BMC")

	system, err := c.systemForWrite()
	if err != nil {
		return err
	}
	manager, _, err := c.manager(system)
	if err != nil {
		return err
	}
	action := manager.Actions.Reset
	if action == nil || action.Target == "" {
		return notSupported("the manager has no Reset action")
	}
	body := map[string]any{}
	if !c.has(bareReset) {
		types := []string{"GracefulRestart", "ForceRestart"}
		i := slices.IndexFunc(types, func(t string) bool { return len(action.Allowed) == 0 || slices.Contains(action.Allowed, t) })
		if i < 0 {
			return notSupported("the manager's Reset allows only " + c.short(strings.Join(action.Allowed, ", "), 200))
		}
		body["ResetType"] = types[i]
	}
	return c.send(http.MethodPost, action.Target, body, nil)
}

// indicatorLED is the state of the server's indicator LED.
type indicatorLED struct {
	// path of the resource that has the LED.
	path string
	// active is LocationIndicatorActive (since DSP8010 2020.3). Nil: led, the older
	// IndicatorLED, counts.
	active *bool
	led    string
}

func (l indicatorLED) isLit() bool {
	if l.active != nil {
		return *l.active
	}
	return l.led != "Off"
}

// readIndicator reads the indicator LED of the system, or else of its first chassis.
func (c *conn) readIndicator() (indicatorLED, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return indicatorLED{}, err
	}
	known := []string{"Lit", "Blinking", "Off"}
	l := indicatorLED{c.system, system.LocationActive, system.IndicatorLED}
	if l.active == nil && !slices.Contains(known, l.led) && len(system.Links.Chassis) > 0 {
		var chassis chassisResource
		path := system.Links.Chassis[0].ID
		if err := c.get(path, &chassis); err != nil {
			return indicatorLED{}, err
		}
		l = indicatorLED{path, chassis.LocationActive, chassis.IndicatorLED}
	}
	if l.active == nil && !slices.Contains(known, l.led) {
		return indicatorLED{}, notSupported("neither the system nor its chassis has an indicator LED")
	}
	return l, nil
}

// Indicator implements bmc.Indicator.
func (c *conn) Indicator(ctx context.Context) (lit bool, err error) {
	c.begin(ctx)
	defer wrap(&err, "read indicator")
	l, err := c.readIndicator()
	return err == nil && l.isLit(), err
}

// SetIndicator implements bmc.Indicator. It reads the LED back.
func (c *conn) SetIndicator(ctx context.Context, lit bool) (err error) {
	c.begin(ctx)
	defer wrap(&err, "set indicator")
	l, err := c.readIndicator()
	if err != nil {
		return err
	}
	bodies := []map[string]any{{"LocationIndicatorActive": lit}}
	if l.active == nil {
		bodies = []map[string]any{{"IndicatorLED": "Off"}}
		if lit {
			bodies = []map[string]any{{"IndicatorLED": "Lit"}, {"IndicatorLED": "Blinking"}} // some BMCs know only one of them
		}
	}
	for _, body := range bodies {
		if err = c.patch(l.path, "", body); err == nil || !isDeclined(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	if l, err = c.readIndicator(); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if l.isLit() != lit {
		return fmt.Errorf("%w: the indicator is lit: %v", bmc.ErrNotApplied, l.isLit())
	}
	return nil
}

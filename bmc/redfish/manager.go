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

// ResetBMC implements bmc.Resetter. A graceful restart is preferred: the BMC
// answers before it goes.
func (c *conn) ResetBMC(ctx context.Context) error {
	c.begin(ctx)
	if err := c.resetManager(); err != nil {
		return fmt.Errorf("reset BMC: %w", err)
	}
	return nil
}

func (c *conn) resetManager() error {
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
		return lacking("the manager has no Reset")
	}
	body := map[string]any{}
	if !c.has(bareReset) {
		types := []string{"GracefulRestart", "ForceRestart"}
		i := slices.IndexFunc(types, func(t string) bool { return len(action.Allowed) == 0 || slices.Contains(action.Allowed, t) })
		if i < 0 {
			return lacking("the manager allows " + c.short(strings.Join(action.Allowed, ", "), 200))
		}
		body["ResetType"] = types[i]
	}
	return c.send(http.MethodPost, action.Target, body, nil)
}

// lamp is where the indicator is and how it is told.
type lamp struct {
	path string
	// active is LocationIndicatorActive, the way since DSP8010 2020.3; nil: led is
	// IndicatorLED, the way before.
	active *bool
	led    string
}

func (l lamp) lit() bool {
	if l.active != nil {
		return *l.active
	}
	return l.led != "Off"
}

// lamp finds the indicator: the system's, else its first chassis'.
func (c *conn) lamp() (lamp, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return lamp{}, err
	}
	l := lamp{c.system, system.LocationActive, system.IndicatorLED}
	if l.active == nil && !knownLED(l.led) && len(system.Links.Chassis) > 0 {
		var chassis chassisResource
		path := system.Links.Chassis[0].ID
		if err := c.get(path, &chassis); err != nil {
			return lamp{}, err
		}
		l = lamp{path, chassis.LocationActive, chassis.IndicatorLED}
	}
	if l.active == nil && !knownLED(l.led) {
		return lamp{}, lacking("neither system nor chassis tells of an indicator")
	}
	return l, nil
}

func knownLED(led string) bool { return led == "Lit" || led == "Blinking" || led == "Off" }

// Indicator implements bmc.Indicator.
func (c *conn) Indicator(ctx context.Context) (bool, error) {
	c.begin(ctx)
	l, err := c.lamp()
	if err != nil {
		return false, fmt.Errorf("read indicator: %w", err)
	}
	return l.lit(), nil
}

// SetIndicator implements bmc.Indicator, and reads back.
func (c *conn) SetIndicator(ctx context.Context, lit bool) error {
	c.begin(ctx)
	if err := c.setIndicator(lit); err != nil {
		return fmt.Errorf("set indicator: %w", err)
	}
	return nil
}

func (c *conn) setIndicator(lit bool) error {
	l, err := c.lamp()
	if err != nil {
		return err
	}
	bodies := []map[string]any{{"LocationIndicatorActive": lit}}
	if l.active == nil {
		bodies = []map[string]any{{"IndicatorLED": "Off"}}
		if lit {
			bodies = []map[string]any{{"IndicatorLED": "Lit"}, {"IndicatorLED": "Blinking"}} // some know one only
		}
	}
	for _, body := range bodies {
		if err = c.patch(l.path, "", body); err == nil || !isRefusedRung(err) {
			break
		}
	}
	if err != nil {
		return err
	}
	if l, err = c.lamp(); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if l.lit() != lit {
		return fmt.Errorf("%w: the indicator is lit: %v", bmc.ErrNotApplied, l.lit())
	}
	return nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// secureBootAttribute is the BIOS attribute of makers that have no other way.
const secureBootAttribute = "SecureBoot"

type secureBootResource struct {
	Enable  *bool  `json:"SecureBootEnable"`
	Current string `json:"SecureBootCurrentBoot"`
	Mode    string `json:"SecureBootMode"`
}

// SecureBoot implements bmc.SecureBoot.
func (c *conn) SecureBoot(ctx context.Context) (bmc.SecureBootState, error) {
	c.begin(ctx)
	state, _, err := c.secureBoot()
	if err != nil {
		return bmc.SecureBootState{}, fmt.Errorf("read Secure Boot: %w", err)
	}
	return state, nil
}

func (c *conn) secureBoot() (bmc.SecureBootState, string, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return bmc.SecureBootState{}, "", err
	}
	path := system.SecureBoot.ID
	if path == "" {
		return bmc.SecureBootState{}, "", lacking("the system has no SecureBoot")
	}
	var r secureBootResource
	if err := c.get(path, &r); err != nil {
		return bmc.SecureBootState{}, "", err
	}
	if r.Enable == nil {
		return bmc.SecureBootState{}, "", lacking("SecureBootEnable is not told")
	}
	state := bmc.SecureBootState{Enabled: *r.Enable, Active: r.Current == "Enabled", Mode: r.Mode}
	if c.has(secureBootSetting) {
		state.Setting = bmc.SecureBootSetting{Name: secureBootAttribute, On: "Enabled"}
		bios, _, err := c.bios()
		if err == nil {
			var pending map[string]bmc.Value
			pending, err = c.pending(bios)
			if v, ok := pending[secureBootAttribute]; ok {
				state.Enabled = v.Text == "Enabled"
			}
		}
		if err := optional(err); err != nil {
			return bmc.SecureBootState{}, "", err
		}
	}
	return state, path, nil
}

// SetSecureBoot implements bmc.SecureBoot, and reads back.
func (c *conn) SetSecureBoot(ctx context.Context, enabled bool) error {
	c.begin(ctx)
	if err := c.setSecureBoot(enabled); err != nil {
		return fmt.Errorf("set Secure Boot: %w", err)
	}
	return nil
}

func (c *conn) setSecureBoot(enabled bool) error {
	state, path, err := c.secureBoot()
	if err != nil {
		return err
	}
	if state.Enabled == enabled {
		return nil
	}
	if c.has(secureBootSetting) {
		value := map[bool]string{true: "Enabled", false: "Disabled"}[enabled]
		err := c.setSettings(map[string]string{secureBootAttribute: value})
		var unfit *bmc.SettingError
		if errors.As(err, &unfit) {
			return lacking(err.Error()) // this model's firmware has no such attribute
		}
		return err
	}
	if err := c.patch(path, "", map[string]any{"SecureBootEnable": enabled}); err != nil {
		return err
	}
	if state, _, err = c.secureBoot(); err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if state.Enabled != enabled {
		return fmt.Errorf("%w: SecureBootEnable is %v", bmc.ErrNotApplied, state.Enabled)
	}
	return nil
}

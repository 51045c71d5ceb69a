// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// maxSettings bounds the attributes of a BIOS; real BIOSes have up to about 1,500.
const maxSettings = 5000

// biosResource is Bios or its settings object (DSP2046).
type biosResource struct {
	Registry   string                     `json:"AttributeRegistry"`
	Attributes map[string]json.RawMessage `json:"Attributes"`
	Settings   struct {
		Object     link     `json:"SettingsObject"`
		ApplyTimes []string `json:"SupportedApplyTimes"`
	} `json:"@Redfish.Settings"`
	Actions struct {
		Reset *actionResource `json:"#Bios.ResetBios"`
	} `json:"Actions"`
}

// Settings implements bmc.Settings.
func (c *conn) Settings(ctx context.Context) (map[string]bmc.Value, error) {
	c.begin(ctx)
	bios, _, err := c.bios()
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return values(bios.Attributes), nil
}

// bios reads the Bios resource and learns the traits of the BMC.
func (c *conn) bios() (biosResource, string, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return biosResource{}, "", err
	}
	path := system.Bios.ID
	if path == "" {
		return biosResource{}, "", notSupported("the system has no Bios")
	}
	var bios biosResource
	if err := c.getLarge(path, &bios); err != nil {
		return biosResource{}, "", err
	}
	if bios.Attributes == nil {
		return biosResource{}, "", notSupported("Bios has no attributes")
	}
	if len(bios.Attributes) > maxSettings {
		return biosResource{}, "", fmt.Errorf("%w: more than %d attributes", bmc.ErrProtocol, maxSettings)
	}
	if bios.Settings.Object.ID == "" && c.has(bootInFuture) {
		bios.Settings.Object.ID = path + "/SD" // AMI's future state, which the BMC does not always link
	}
	return bios, path, nil
}

// values converts attributes. It leaves out values of other types and attributes with "password"
// in their name.
func values(attributes map[string]json.RawMessage) map[string]bmc.Value {
	out := make(map[string]bmc.Value, len(attributes))
	for name, raw := range attributes {
		if v, ok := value(raw); ok && !strings.Contains(strings.ToLower(name), "password") {
			out[name] = v
		}
	}
	return out
}

func value(raw json.RawMessage) (bmc.Value, bool) {
	text := strings.TrimSpace(string(raw))
	var s string
	switch {
	case text == "true" || text == "false":
		return bmc.Value{Kind: bmc.ValueBoolean, Bool: text == "true"}, true
	case strings.HasPrefix(text, `"`) && json.Unmarshal(raw, &s) == nil:
		return bmc.Value{Kind: bmc.ValueString, Text: s}, true
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return bmc.Value{Kind: bmc.ValueInteger, Int: n}, err == nil
}

// PendingSettings implements bmc.Settings. Some BMCs repeat all settings in the settings object;
// those that differ are pending.
func (c *conn) PendingSettings(ctx context.Context) (_ map[string]bmc.Value, err error) {
	c.begin(ctx)
	defer wrap(&err, "read pending settings")
	bios, _, err := c.bios()
	if err != nil {
		return nil, err
	}
	return c.pending(bios)
}

func (c *conn) pending(bios biosResource) (map[string]bmc.Value, error) {
	if bios.Settings.Object.ID == "" {
		return map[string]bmc.Value{}, nil // writes take effect at once
	}
	var future biosResource
	err := c.getLarge(bios.Settings.Object.ID, &future)
	if e, ok := refusal(err); ok && e.status == http.StatusNotFound {
		return map[string]bmc.Value{}, nil // the object exists only while something is pending
	}
	if err != nil {
		return nil, err
	}
	now, then := values(bios.Attributes), values(future.Attributes)
	maps.DeleteFunc(then, func(name string, v bmc.Value) bool {
		have, ok := now[name]
		return ok && have == v
	})
	return then, nil
}

// SetSettings implements bmc.Settings. It does not send values that are set or pending already:
// with some BMCs each write is a job that needs a reboot.
func (c *conn) SetSettings(ctx context.Context, wanted map[string]string) (err error) {
	c.begin(ctx)
	defer wrap(&err, "set settings")
	return c.setSettings(wanted)
}

func (c *conn) setSettings(wanted map[string]string) error {
	bios, path, err := c.bios()
	if err != nil {
		return err
	}
	schemas, err := c.schemasOf(bios)
	if err := ignoreUnsupported(err); err != nil {
		return err
	}
	typed, err := c.typedSettings(wanted, values(bios.Attributes), schemas)
	if err != nil {
		return err
	}
	next, err := c.afterBoot(bios)
	if err != nil {
		return err
	}
	attributes := map[string]any{}
	for name, v := range typed {
		if next[name] != v {
			attributes[name] = jsonValue(v)
		}
	}
	if len(attributes) == 0 {
		return nil
	}
	if err := c.writeSettings(bios, path, attributes); err != nil {
		return err
	}
	if bios, _, err = c.bios(); err == nil {
		next, err = c.afterBoot(bios)
	}
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	for name, v := range typed {
		if next[name] != v {
			return fmt.Errorf("%w: after the next boot, %s will be %q", bmc.ErrNotApplied, name, c.short(next[name].String(), 100))
		}
	}
	return nil
}

// afterBoot returns the settings after the next boot.
func (c *conn) afterBoot(bios biosResource) (map[string]bmc.Value, error) {
	pending, err := c.pending(bios)
	if err != nil {
		return nil, err
	}
	next := values(bios.Attributes)
	maps.Copy(next, pending)
	return next, nil
}

// writeSettings writes attributes to the settings object or the Bios resource. It adds the apply
// time (DSP0266, settings resources) if the BMC needs or lists it.
func (c *conn) writeSettings(bios biosResource, path string, attributes map[string]any) error {
	if bios.Settings.Object.ID != "" {
		path = bios.Settings.Object.ID
	}
	body := map[string]any{"Attributes": attributes}
	if c.has(applyOnReset) || slices.Contains(bios.Settings.ApplyTimes, "OnReset") {
		body["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": "OnReset"}
	}
	header, shown, err := c.tags(path)
	if err != nil && !isMissing(err) { // a settings object without pending settings may be unreadable and still take a PATCH
		return err
	}
	return c.patchTagged(path, cmp.Or(header, shown), body)
}

// typedSettings converts text into values, or returns the first bad setting by name, so that the
// error is stable.
func (c *conn) typedSettings(wanted map[string]string, now map[string]bmc.Value, schemas map[string]bmc.SettingSchema) (map[string]bmc.Value, error) {
	typed := make(map[string]bmc.Value, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		text := wanted[name]
		fail := func(why string) (map[string]bmc.Value, error) {
			return nil, &bmc.SettingError{Name: name, Value: text, Reason: why}
		}
		have, known := now[name]
		if !known {
			return fail("unknown to this firmware")
		}
		schema, described := schemas[name]
		if described && schema.ReadOnly {
			return fail("read-only")
		}
		v, why := parseValue(text, have.Kind)
		if why == "" && described {
			why = c.violation(v, schema)
		}
		if why != "" {
			return fail(why)
		}
		typed[name] = v
	}
	return typed, nil
}

// parseValue parses text as the kind of the current value.
func parseValue(text string, kind bmc.ValueKind) (v bmc.Value, why string) {
	v.Kind = kind
	var err error
	switch kind {
	case bmc.ValueInteger:
		if v.Int, err = strconv.ParseInt(text, 10, 64); err != nil {
			return v, "not a whole number"
		}
	case bmc.ValueBoolean:
		if v.Bool, err = strconv.ParseBool(text); err != nil {
			return v, "neither true nor false"
		}
	default:
		v.Text = text
	}
	return v, ""
}

// violation returns why a value does not fit its schema, or "".
func (c *conn) violation(v bmc.Value, s bmc.SettingSchema) string {
	switch {
	case s.Kind == bmc.ValueEnumeration && len(s.Choices) > 0 && !slices.Contains(s.Choices, v.Text):
		return "must be one of " + c.short(strings.Join(s.Choices, ", "), 300)
	case s.Kind == bmc.ValueInteger && s.Min != nil && v.Int < *s.Min:
		return fmt.Sprintf("less than %d", *s.Min)
	case s.Kind == bmc.ValueInteger && s.Max != nil && v.Int > *s.Max:
		return fmt.Sprintf("more than %d", *s.Max)
	case s.Kind == bmc.ValueString && s.MaxLength != nil && int64(len(v.Text)) > *s.MaxLength:
		return fmt.Sprintf("longer than %d", *s.MaxLength)
	}
	return ""
}

func jsonValue(v bmc.Value) any {
	switch v.Kind {
	case bmc.ValueInteger:
		return v.Int
	case bmc.ValueBoolean:
		return v.Bool
	}
	return v.Text
}

// ResetSettings implements bmc.Settings.
func (c *conn) ResetSettings(ctx context.Context) (err error) {
	c.begin(ctx)
	defer wrap(&err, "reset settings")
	bios, _, err := c.bios()
	if err != nil {
		return err
	}
	if action := bios.Actions.Reset; action != nil && action.Target != "" {
		return c.send(http.MethodPost, action.Target, map[string]any{}, nil)
	}
	return notSupported("Bios has no ResetBios action")
}

// secureBootAttribute is the BIOS attribute of vendors that have no other way.
const secureBootAttribute = "SecureBoot"

type secureBootResource struct {
	Enable  *bool  `json:"SecureBootEnable"`
	Current string `json:"SecureBootCurrentBoot"`
	Mode    string `json:"SecureBootMode"`
}

// SecureBoot implements bmc.SecureBoot.
func (c *conn) SecureBoot(ctx context.Context) (state bmc.SecureBootState, err error) {
	c.begin(ctx)
	defer wrap(&err, "read Secure Boot")
	state, _, err = c.secureBoot()
	return state, err
}

func (c *conn) secureBoot() (bmc.SecureBootState, string, error) {
	system, err := c.systemForWrite()
	if err != nil {
		return bmc.SecureBootState{}, "", err
	}
	path := system.SecureBoot.ID
	if path == "" {
		return bmc.SecureBootState{}, "", notSupported("the system has no SecureBoot")
	}
	var r secureBootResource
	if err := c.get(path, &r); err != nil {
		return bmc.SecureBootState{}, "", err
	}
	if r.Enable == nil {
		return bmc.SecureBootState{}, "", notSupported("SecureBoot has no SecureBootEnable")
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
		if err := ignoreUnsupported(err); err != nil {
			return bmc.SecureBootState{}, "", err
		}
	}
	return state, path, nil
}

// SetSecureBoot implements bmc.SecureBoot. It reads the setting back.
func (c *conn) SetSecureBoot(ctx context.Context, enabled bool) (err error) {
	c.begin(ctx)
	defer wrap(&err, "set Secure Boot")
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
			return notSupported(err.Error()) // this model's firmware has no such attribute
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

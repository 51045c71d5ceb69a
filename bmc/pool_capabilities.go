// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"io"
)

// What a lease lends beyond power, boot device and inventory.

// MediaSlots implements Media.
func (l *lease) MediaSlots(ctx context.Context) ([]MediaSlot, error) {
	return ask(ctx, l, CallMediaSlots, Conn.MediaSlots)
}

// InsertMedia implements Media.
func (l *lease) InsertMedia(ctx context.Context, kind MediaKind, url string) (MediaSlot, error) {
	return ask(ctx, l, CallInsertMedia, func(c Conn, ctx context.Context) (MediaSlot, error) { return c.InsertMedia(ctx, kind, url) })
}

// EjectMedia implements Media.
func (l *lease) EjectMedia(ctx context.Context, slot string) error {
	return l.call(ctx, CallEjectMedia, func(ctx context.Context, c Conn) error { return c.EjectMedia(ctx, slot) })
}

// Settings implements Settings.
func (l *lease) Settings(ctx context.Context) (map[string]Value, error) {
	return ask(ctx, l, CallSettings, Conn.Settings)
}

// SettingSchemas implements Settings.
func (l *lease) SettingSchemas(ctx context.Context) (map[string]SettingSchema, error) {
	return ask(ctx, l, CallSettingSchemas, Conn.SettingSchemas)
}

// PendingSettings implements Settings.
func (l *lease) PendingSettings(ctx context.Context) (map[string]Value, error) {
	return ask(ctx, l, CallPendingSettings, Conn.PendingSettings)
}

// SetSettings implements Settings.
func (l *lease) SetSettings(ctx context.Context, values map[string]string) error {
	return l.call(ctx, CallSetSettings, func(ctx context.Context, c Conn) error { return c.SetSettings(ctx, values) })
}

// ResetSettings implements Settings.
func (l *lease) ResetSettings(ctx context.Context) error {
	return l.call(ctx, CallResetSettings, func(ctx context.Context, c Conn) error { return c.ResetSettings(ctx) })
}

// FirmwareInventory implements Firmware.
func (l *lease) FirmwareInventory(ctx context.Context) ([]FirmwareItem, error) {
	return ask(ctx, l, CallFirmwareInventory, Conn.FirmwareInventory)
}

// FirmwareItem implements FirmwareReader.
func (l *lease) FirmwareItem(ctx context.Context, id string) (FirmwareItem, error) {
	return ask(ctx, l, CallFirmwareInventory, func(c Conn, ctx context.Context) (FirmwareItem, error) {
		reader, ok := c.(FirmwareReader)
		if !ok {
			return FirmwareItem{}, ErrNotSupported
		}
		return reader.FirmwareItem(ctx, id)
	})
}

// UpdateWays implements Firmware.
func (l *lease) UpdateWays(ctx context.Context) (UpdateWays, error) {
	return ask(ctx, l, CallUpdateWays, Conn.UpdateWays)
}

// Task implements Firmware.
func (l *lease) Task(ctx context.Context, id string) (Task, error) {
	return ask(ctx, l, CallTask, func(c Conn, ctx context.Context) (Task, error) { return c.Task(ctx, id) })
}

// Health implements Health.
func (l *lease) Health(ctx context.Context) (HealthReport, error) {
	return ask(ctx, l, CallHealth, Conn.Health)
}

// EventLog implements EventLog.
func (l *lease) EventLog(ctx context.Context, limit int) ([]LogEntry, error) {
	return ask(ctx, l, CallEventLog, func(c Conn, ctx context.Context) ([]LogEntry, error) { return c.EventLog(ctx, limit) })
}

// ClearEventLog implements EventLog.
func (l *lease) ClearEventLog(ctx context.Context) error {
	return l.call(ctx, CallClearEventLog, func(ctx context.Context, c Conn) error { return c.ClearEventLog(ctx) })
}

// OpenConsole implements Console. The deadline of a call is no console's: the
// stream lives as long as ctx, and keeps the BMC to itself only while the function
// that it was lent to runs.
func (l *lease) OpenConsole(ctx context.Context) (stream io.ReadWriteCloser, err error) {
	err = l.call(ctx, CallOpenConsole, func(_ context.Context, c Conn) (err error) {
		stream, err = c.OpenConsole(ctx)
		return err
	})
	return stream, err
}

// SetPassword implements Accounts.
func (l *lease) SetPassword(ctx context.Context, password Password) error {
	return l.call(ctx, CallSetPassword, func(ctx context.Context, c Conn) error { return c.SetPassword(ctx, password) })
}

// SecureBoot implements SecureBoot.
func (l *lease) SecureBoot(ctx context.Context) (SecureBootState, error) {
	return ask(ctx, l, CallSecureBoot, Conn.SecureBoot)
}

// SetSecureBoot implements SecureBoot.
func (l *lease) SetSecureBoot(ctx context.Context, enabled bool) error {
	return l.call(ctx, CallSetSecureBoot, func(ctx context.Context, c Conn) error { return c.SetSecureBoot(ctx, enabled) })
}

// ResetBMC implements Resetter. The session is no more once the BMC restarts.
func (l *lease) ResetBMC(ctx context.Context) error {
	l.drop = true
	return l.call(ctx, CallResetBMC, func(ctx context.Context, c Conn) error { return c.ResetBMC(ctx) })
}

// Indicator implements Indicator.
func (l *lease) Indicator(ctx context.Context) (bool, error) {
	return ask(ctx, l, CallIndicator, Conn.Indicator)
}

// SetIndicator implements Indicator.
func (l *lease) SetIndicator(ctx context.Context, lit bool) error {
	return l.call(ctx, CallSetIndicator, func(ctx context.Context, c Conn) error { return c.SetIndicator(ctx, lit) })
}

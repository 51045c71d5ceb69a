// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
)

// This file forwards the methods of Conn from a lease to the session.

func (l *lease) PowerState(ctx context.Context) (PowerState, error) {
	return callFor(ctx, l, CallPowerState, Conn.PowerState)
}

// PollState reads only the power state if the driver does not implement Pulse.
func (l *lease) PollState(ctx context.Context) (PollState, error) {
	return callFor(ctx, l, CallPollState, func(c Conn, ctx context.Context) (PollState, error) {
		vitals, err := c.PollState(ctx)
		if !errors.Is(err, ErrNotSupported) {
			return vitals, err
		}
		power, err := c.PowerState(ctx)
		return PollState{Power: power, Health: HealthUnknown}, err
	})
}

func (l *lease) SetPower(ctx context.Context, action PowerAction) error {
	return l.call(ctx, CallSetPower, func(ctx context.Context, c Conn) error { return c.SetPower(ctx, action) })
}

func (l *lease) BootOverride(ctx context.Context) (BootOverride, error) {
	return callFor(ctx, l, CallBootOverride, Conn.BootOverride)
}

func (l *lease) SetBootOverride(ctx context.Context, override BootOverride) error {
	return l.call(ctx, CallSetBootOverride, func(ctx context.Context, c Conn) error { return c.SetBootOverride(ctx, override) })
}

func (l *lease) Identity(ctx context.Context) (Identity, error) {
	return callFor(ctx, l, CallIdentity, Conn.Identity)
}

func (l *lease) Inventory(ctx context.Context) (Inventory, error) {
	return callFor(ctx, l, CallInventory, Conn.Inventory)
}

func (l *lease) MediaSlots(ctx context.Context) ([]MediaSlot, error) {
	return callFor(ctx, l, CallMediaSlots, Conn.MediaSlots)
}

func (l *lease) InsertMedia(ctx context.Context, kind MediaKind, url string) (MediaSlot, error) {
	return callFor(ctx, l, CallInsertMedia, func(c Conn, ctx context.Context) (MediaSlot, error) { return c.InsertMedia(ctx, kind, url) })
}

func (l *lease) EjectMedia(ctx context.Context, slot string) error {
	return l.call(ctx, CallEjectMedia, func(ctx context.Context, c Conn) error { return c.EjectMedia(ctx, slot) })
}

func (l *lease) Settings(ctx context.Context) (map[string]Value, error) {
	return callFor(ctx, l, CallSettings, Conn.Settings)
}

func (l *lease) SettingSchemas(ctx context.Context) (map[string]SettingSchema, error) {
	return callFor(ctx, l, CallSettingSchemas, Conn.SettingSchemas)
}

func (l *lease) PendingSettings(ctx context.Context) (map[string]Value, error) {
	return callFor(ctx, l, CallPendingSettings, Conn.PendingSettings)
}

func (l *lease) SetSettings(ctx context.Context, values map[string]string) error {
	return l.call(ctx, CallSetSettings, func(ctx context.Context, c Conn) error { return c.SetSettings(ctx, values) })
}

func (l *lease) ResetSettings(ctx context.Context) error {
	return l.call(ctx, CallResetSettings, func(ctx context.Context, c Conn) error { return c.ResetSettings(ctx) })
}

func (l *lease) FirmwareInventory(ctx context.Context) ([]FirmwareItem, error) {
	return callFor(ctx, l, CallFirmwareInventory, Conn.FirmwareInventory)
}

// FirmwareItem implements FirmwareReader.
func (l *lease) FirmwareItem(ctx context.Context, id string) (FirmwareItem, error) {
	return callFor(ctx, l, CallFirmwareInventory, func(c Conn, ctx context.Context) (FirmwareItem, error) {
		reader, ok := c.(FirmwareReader)
		if !ok {
			return FirmwareItem{}, ErrNotSupported
		}
		return reader.FirmwareItem(ctx, id)
	})
}

func (l *lease) UpdateMethods(ctx context.Context) (UpdateMethods, error) {
	return callFor(ctx, l, CallUpdateMethods, Conn.UpdateMethods)
}

// UpdateFirmware uses the transfer deadline for an image. It does not repeat the call after
// the driver has read a part of the image, because the rest would not be an image.
func (l *lease) UpdateFirmware(ctx context.Context, update Update) (task Task, err error) {
	timeout, image := l.pool.opts.CallTimeout, &readDetector{}
	if update.Image != nil {
		timeout, image.r = l.pool.opts.TransferTimeout, update.Image
		update.Image = image
	}
	err = l.callWithin(ctx, CallUpdateFirmware, timeout, func(ctx context.Context, c Conn) (err error) {
		task, err = c.UpdateFirmware(ctx, update)
		return err
	}, func() bool { return !image.read.Load() })
	return task, err
}

// readDetector records whether it was read.
type readDetector struct {
	r    io.Reader
	read atomic.Bool
}

func (d *readDetector) Read(p []byte) (int, error) {
	d.read.Store(true)
	return d.r.Read(p)
}

func (l *lease) Task(ctx context.Context, id string) (Task, error) {
	return callFor(ctx, l, CallTask, func(c Conn, ctx context.Context) (Task, error) { return c.Task(ctx, id) })
}

func (l *lease) Health(ctx context.Context) (HealthReport, error) {
	return callFor(ctx, l, CallHealth, Conn.Health)
}

func (l *lease) EventLog(ctx context.Context, limit int) ([]LogEntry, error) {
	return callFor(ctx, l, CallEventLog, func(c Conn, ctx context.Context) ([]LogEntry, error) { return c.EventLog(ctx, limit) })
}

func (l *lease) ClearEventLog(ctx context.Context) error {
	return l.call(ctx, CallClearEventLog, func(ctx context.Context, c Conn) error { return c.ClearEventLog(ctx) })
}

// OpenConsole passes the caller's ctx, because the stream outlives the deadline of the
// call. The stream occupies the BMC only until the function of Do returns.
func (l *lease) OpenConsole(ctx context.Context) (io.ReadWriteCloser, error) {
	return callFor(ctx, l, CallOpenConsole, func(c Conn, _ context.Context) (io.ReadWriteCloser, error) { return c.OpenConsole(ctx) })
}

func (l *lease) SetPassword(ctx context.Context, password Password) error {
	return l.call(ctx, CallSetPassword, func(ctx context.Context, c Conn) error { return c.SetPassword(ctx, password) })
}

func (l *lease) SecureBoot(ctx context.Context) (SecureBootState, error) {
	return callFor(ctx, l, CallSecureBoot, Conn.SecureBoot)
}

func (l *lease) SetSecureBoot(ctx context.Context, enabled bool) error {
	return l.call(ctx, CallSetSecureBoot, func(ctx context.Context, c Conn) error { return c.SetSecureBoot(ctx, enabled) })
}

// ResetBMC drops the session, because the BMC forgets it with the restart.
func (l *lease) ResetBMC(ctx context.Context) error {
	l.drop = true
	return l.call(ctx, CallResetBMC, func(ctx context.Context, c Conn) error { return c.ResetBMC(ctx) })
}

func (l *lease) Indicator(ctx context.Context) (bool, error) {
	return callFor(ctx, l, CallIndicator, Conn.Indicator)
}

func (l *lease) SetIndicator(ctx context.Context, lit bool) error {
	return l.call(ctx, CallSetIndicator, func(ctx context.Context, c Conn) error { return c.SetIndicator(ctx, lit) })
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"io"
)

// Unsupported answers ErrNotSupported to everything beyond the least that a Conn
// can; drivers embed it and override what they can.
type Unsupported struct{}

var _ interface {
	Media
	Settings
	Firmware
	Health
	EventLog
	Console
	Accounts
	SecureBoot
	Resetter
	Indicator
	Pulse
	Events
} = Unsupported{}

func lacks(c Capability) error { return fmt.Errorf("%s: %w", c, ErrNotSupported) }

// MediaSlots implements Media.
func (Unsupported) MediaSlots(context.Context) ([]MediaSlot, error) { return nil, lacks(CapMedia) }

// InsertMedia implements Media.
func (Unsupported) InsertMedia(context.Context, MediaKind, string) (MediaSlot, error) {
	return MediaSlot{}, lacks(CapMedia)
}

// EjectMedia implements Media.
func (Unsupported) EjectMedia(context.Context, string) error { return lacks(CapMedia) }

// Settings implements Settings.
func (Unsupported) Settings(context.Context) (map[string]Value, error) {
	return nil, lacks(CapSettings)
}

// SettingSchemas implements Settings.
func (Unsupported) SettingSchemas(context.Context) (map[string]SettingSchema, error) {
	return nil, lacks(CapSettings)
}

// PendingSettings implements Settings.
func (Unsupported) PendingSettings(context.Context) (map[string]Value, error) {
	return nil, lacks(CapSettings)
}

// SetSettings implements Settings.
func (Unsupported) SetSettings(context.Context, map[string]string) error { return lacks(CapSettings) }

// ResetSettings implements Settings.
func (Unsupported) ResetSettings(context.Context) error { return lacks(CapSettings) }

// FirmwareInventory implements Firmware.
func (Unsupported) FirmwareInventory(context.Context) ([]FirmwareItem, error) {
	return nil, lacks(CapFirmware)
}

// UpdateWays implements Firmware.
func (Unsupported) UpdateWays(context.Context) (UpdateWays, error) {
	return UpdateWays{}, nil
}

// UpdateFirmware implements Firmware.
func (Unsupported) UpdateFirmware(_ context.Context, update Update) (Task, error) {
	if update.URL != "" {
		return Task{}, lacks(CapFirmwareFetch)
	}
	return Task{}, lacks(CapFirmwarePush)
}

// Task implements Firmware.
func (Unsupported) Task(context.Context, string) (Task, error) { return Task{}, lacks(CapFirmware) }

// Health implements Health.
func (Unsupported) Health(context.Context) (HealthReport, error) {
	return HealthReport{}, lacks(CapHealth)
}

// EventLog implements EventLog.
func (Unsupported) EventLog(context.Context, int) ([]LogEntry, error) { return nil, lacks(CapEventLog) }

// ClearEventLog implements EventLog.
func (Unsupported) ClearEventLog(context.Context) error { return lacks(CapEventLog) }

// OpenConsole implements Console.
func (Unsupported) OpenConsole(context.Context) (io.ReadWriteCloser, error) {
	return nil, lacks(CapConsole)
}

// SetPassword implements Accounts.
func (Unsupported) SetPassword(context.Context, Password) error { return lacks(CapAccounts) }

// SecureBoot implements SecureBoot.
func (Unsupported) SecureBoot(context.Context) (SecureBootState, error) {
	return SecureBootState{}, lacks(CapSecureBoot)
}

// SetSecureBoot implements SecureBoot.
func (Unsupported) SetSecureBoot(context.Context, bool) error { return lacks(CapSecureBoot) }

// ResetBMC implements Resetter.
func (Unsupported) ResetBMC(context.Context) error { return lacks(CapReset) }

// Indicator implements Indicator.
func (Unsupported) Indicator(context.Context) (bool, error) { return false, lacks(CapIndicator) }

// SetIndicator implements Indicator.
func (Unsupported) SetIndicator(context.Context, bool) error { return lacks(CapIndicator) }

// Vitals implements Pulse: a Pool then asks for the power state.
func (Unsupported) Vitals(context.Context) (Vitals, error) { return Vitals{}, lacks(CapHealth) }

// OpenEvents implements Events.
func (Unsupported) OpenEvents(context.Context) (EventStream, error) { return nil, lacks(CapEvents) }

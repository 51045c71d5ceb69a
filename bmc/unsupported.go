// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"context"
	"fmt"
	"io"
)

// Unsupported returns ErrNotSupported for every optional capability of a Conn. Drivers
// embed it and override the methods that they support.
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
	Poller
	Events
} = Unsupported{}

func lacks(c Capability) error { return fmt.Errorf("%s: %w", c, ErrNotSupported) }

func (Unsupported) MediaSlots(context.Context) ([]MediaSlot, error) { return nil, lacks(CapMedia) }
func (Unsupported) InsertMedia(context.Context, MediaKind, string) (MediaSlot, error) {
	return MediaSlot{}, lacks(CapMedia)
}
func (Unsupported) EjectMedia(context.Context, string) error { return lacks(CapMedia) }
func (Unsupported) Settings(context.Context) (map[string]Value, error) {
	return nil, lacks(CapSettings)
}
func (Unsupported) SettingSchemas(context.Context) (map[string]SettingSchema, error) {
	return nil, lacks(CapSettings)
}
func (Unsupported) PendingSettings(context.Context) (map[string]Value, error) {
	return nil, lacks(CapSettings)
}
func (Unsupported) SetSettings(context.Context, map[string]string) error { return lacks(CapSettings) }
func (Unsupported) ResetSettings(context.Context) error                  { return lacks(CapSettings) }
func (Unsupported) FirmwareInventory(context.Context) ([]FirmwareItem, error) {
	return nil, lacks(CapFirmware)
}
func (Unsupported) UpdateMethods(context.Context) (UpdateMethods, error) { return UpdateMethods{}, nil }

func (Unsupported) UpdateFirmware(_ context.Context, update Update) (Task, error) {
	if update.URL != "" {
		return Task{}, lacks(CapFirmwareFetch)
	}
	return Task{}, lacks(CapFirmwarePush)
}

func (Unsupported) Task(context.Context, string) (Task, error) { return Task{}, lacks(CapFirmware) }
func (Unsupported) Health(context.Context) (HealthReport, error) {
	return HealthReport{}, lacks(CapHealth)
}
func (Unsupported) EventLog(context.Context, int) ([]LogEntry, error) { return nil, lacks(CapEventLog) }
func (Unsupported) ClearEventLog(context.Context) error               { return lacks(CapEventLog) }
func (Unsupported) OpenConsole(context.Context) (io.ReadWriteCloser, error) {
	return nil, lacks(CapConsole)
}
func (Unsupported) SetPassword(context.Context, Password) error { return lacks(CapAccounts) }
func (Unsupported) SecureBoot(context.Context) (SecureBootState, error) {
	return SecureBootState{}, lacks(CapSecureBoot)
}
func (Unsupported) SetSecureBoot(context.Context, bool) error { return lacks(CapSecureBoot) }
func (Unsupported) ResetBMC(context.Context) error            { return lacks(CapReset) }
func (Unsupported) Indicator(context.Context) (bool, error)   { return false, lacks(CapIndicator) }
func (Unsupported) SetIndicator(context.Context, bool) error  { return lacks(CapIndicator) }

// PollState implements Pulse: a Pool then asks for the power state.
func (Unsupported) PollState(context.Context) (PollState, error) {
	return PollState{}, lacks(CapHealth)
}
func (Unsupported) OpenEvents(context.Context) (EventStream, error) { return nil, lacks(CapEvents) }

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"encoding/binary"

	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/hal/mock"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// hardware connects the simulator to the Machine, and to go-ipmi's mock for FRU and sensor records.
type hardware struct {
	*mock.HAL

	bmc *BMC
}

func newHardware(b *BMC) (*hardware, error) {
	h := &hardware{HAL: mock.New(), bmc: b}
	ctx := context.Background()
	if err := h.Storage().FRU().Write(ctx, 0, fruImage(b.cfg.System)); err != nil {
		return nil, err
	}
	for i, s := range b.cfg.Sensors {
		id := uint16(i + 1)
		if err := h.Storage().SDR().Write(ctx, id, s.record(id)); err != nil {
			return nil, err
		}
	}
	if b.cfg.Console != nil {
		h.SetConsole(console{open: b.cfg.Console})
	}
	return h, nil
}

func (h *hardware) Chassis() hal.ChassisHAL { return chassis{&mock.Chassis{}, h.bmc} }

// chassis forwards the simulator's calls to the Machine.
type chassis struct {
	*mock.Chassis

	bmc *BMC
}

func (c chassis) power(ctx context.Context, action bmc.Action) error {
	return c.bmc.cfg.Machine.Power(ctx, action)
}

func (c chassis) PowerState(context.Context) (bool, error) { return c.bmc.reportedPower(), nil }

func (c chassis) SetPower(ctx context.Context, on bool) error {
	if on {
		return c.power(ctx, bmc.On)
	}
	return c.power(ctx, bmc.Off)
}

// PowerCycle implements hal.ChassisHAL; it does nothing if the server is off.
func (c chassis) PowerCycle(ctx context.Context) error {
	if !c.bmc.cfg.Machine.Powered() {
		return nil
	}
	if err := c.power(ctx, bmc.Off); err != nil {
		return err
	}
	return c.power(ctx, bmc.On)
}

// ColdReset implements hal.ChassisHAL with Chassis Control's hard reset.
func (c chassis) ColdReset(ctx context.Context) error { return c.power(ctx, bmc.Reset) }

// WarmReset implements hal.ChassisHAL with Chassis Control's soft shutdown.
func (c chassis) WarmReset(ctx context.Context) error { return c.power(ctx, bmc.Shutdown) }

func (c chassis) Identify(_ context.Context, seconds uint8) error {
	c.bmc.mu.Lock()
	defer c.bmc.mu.Unlock()
	c.bmc.lit = seconds != 0
	return nil
}

// bootTargets maps the boot devices of IPMI to those of lab/bmc.
func bootTargets() map[types.BootDeviceSelector]bmc.Target {
	return map[types.BootDeviceSelector]bmc.Target{
		types.BootDeviceSelectorNoOverride:     bmc.TargetNone,
		types.BootDeviceSelectorForcePXE:       bmc.TargetPXE,
		types.BootDeviceSelectorForceHardDrive: bmc.TargetDisk,
		types.BootDeviceSelectorForceCDROM:     bmc.Target("Cd"),
		types.BootDeviceSelectorForceBIOSSetup: bmc.Target("BiosSetup"),
	}
}

func (c chassis) SetBootFlags(_ context.Context, flags *types.BootOptionParam_BootFlags) error {
	if c.bmc.current().ForgetBoot {
		return nil
	}
	target, ok := bootTargets()[flags.BootDeviceSelector]
	if !ok {
		return hal.ErrNotSupported
	}
	boot := bmc.Boot{Enabled: bmc.Disabled, Target: bmc.TargetNone, Mode: bmc.Legacy}
	if flags.BIOSBootType == types.BIOSBootTypeEFI {
		boot.Mode = bmc.UEFI
	}
	if flags.BootFlagsValid && target != bmc.TargetNone {
		boot.Enabled, boot.Target = bmc.Once, target
		if flags.Persist {
			boot.Enabled = bmc.Continuous
		}
	}
	c.bmc.cfg.Machine.SetBoot(boot)
	return nil
}

// GetBootFlags implements hal.ChassisHAL; the flags are valid while there is an override.
func (c chassis) GetBootFlags(context.Context) (*types.BootOptionParam_BootFlags, error) {
	boot := c.bmc.cfg.Machine.Boot()
	flags := &types.BootOptionParam_BootFlags{
		BootFlagsValid: boot.Enabled != bmc.Disabled,
		Persist:        boot.Enabled == bmc.Continuous,
		BIOSBootType:   types.BIOSBootType(boot.Mode == bmc.UEFI),
	}
	for selector, target := range bootTargets() {
		if target == boot.Target {
			flags.BootDeviceSelector = selector
		}
	}
	return flags, nil
}

// register adds commands that the simulator lacks, or implements for other hardware.
func (b *BMC) register(r *handlers.Registry) error {
	guid, err := guidBytes(b.cfg.System.UUID)
	if err != nil {
		return err
	}
	answer := func(c types.Command, f func(data []byte) ([]byte, types.CompletionCode)) {
		r.RegisterFunc(c, func(_ context.Context, _ *handlers.HandlerContext, data []byte) ([]byte, types.CompletionCode, error) {
			out, code := f(data)
			return out, code, nil
		})
	}
	answer(types.CommandGetSystemGUID, func([]byte) ([]byte, types.CompletionCode) { return guid[:], types.CodeOK })
	answer(types.CommandGetChassisStatus, func([]byte) ([]byte, types.CompletionCode) { return b.chassisStatus(), types.CodeOK })
	answer(types.CommandColdReset, func([]byte) ([]byte, types.CompletionCode) {
		b.mu.Lock()
		b.resets++
		b.mu.Unlock()
		// The answer is still sent in the session.
		go b.ForgetSessions()
		return nil, types.CodeOK
	})
	answer(types.CommandGetSensorReading, b.sensorReading)
	answer(types.CommandGetSELInfo, b.selInfo)
	answer(types.CommandReserveSEL, b.reserveSEL)
	answer(types.CommandGetSELEntry, b.selEntry)
	answer(types.CommandAddSELEntry, b.addSEL)
	answer(types.CommandClearSEL, b.clearSEL)
	return nil
}

// chassisStatus reports the power and the indicator (IPMI v2.0 §28.2 table 28-3).
func (b *BMC) chassisStatus() []byte {
	out := []byte{0, 0, 0x40} // the indicator's state is reported
	if b.reportedPower() {
		out[0] = 0x01
	}
	if b.Lit() {
		out[2] |= 0x20 // without a time limit
	}
	return out
}

// sensorReading answers Get Sensor Reading (§35.14).
func (b *BMC) sensorReading(data []byte) ([]byte, types.CompletionCode) {
	for _, s := range b.cfg.Sensors {
		if len(data) > 0 && data[0] == s.Number {
			return []byte{s.Value, 0xc0, s.States}, types.CodeOK
		}
	}
	return nil, types.CodeRequestedDataNotPresent
}

// Sensor is an analog sensor with thresholds and a reading of Value units.
type Sensor struct {
	Number byte
	// Type of IPMI v2.0 table 42-3 (1 temperature, 4 fan) and Unit of table 43-15 (1
	// degrees Celsius, 18 RPM).
	Type, Unit byte
	Name       string
	Value      byte
	// States are the crossed thresholds, bits 0 to 5.
	States byte
}

// record returns the sensor's full record (§43.1).
func (s Sensor) record(id uint16) []byte {
	body := make([]byte, 43, 64)
	body[0], body[2], body[7], body[8] = 0x20, s.Number, s.Type, 0x01
	body[6] = 0x08                         // readable thresholds
	body[13], body[14] = 0x3f, 0x3f        // all six
	body[16], body[19] = s.Unit, 1         // unit; M = 1: value = raw
	body[42] = 0xc0 | byte(len(s.Name)&31) // text
	body = append(body, s.Name[:len(s.Name)&31]...)
	head := binary.LittleEndian.AppendUint16(nil, id)
	return append(append(head, 0x51, 0x01, byte(len(body))), body...)
}

// fruImage returns a FRU with a product area (FRU definition v1.3 §8, §12).
func fruImage(s bmc.System) []byte {
	area := []byte{1, 0, 0}
	for _, text := range []string{s.Manufacturer, s.Model, "", "", s.Serial} {
		text = text[:min(len(text), 63)]
		area = append(append(area, 0xc0|byte(len(text))), text...)
	}
	area = append(area, 0xc1)
	for len(area)%8 != 7 {
		area = append(area, 0)
	}
	area[1] = byte(len(area)+1) / 8
	area = append(area, checksum(area))
	head := []byte{1, 0, 0, 0, 1, 0, 0}
	return append(append(head, checksum(head)), area...)
}

func checksum(b []byte) (sum byte) {
	for _, x := range b {
		sum -= x
	}
	return sum
}

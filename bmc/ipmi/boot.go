// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// Boot options (§28.12, §28.13 table 28-14).
const (
	bootValidClear = 0x03
	bootFlags      = 0x05

	flagValid      = 0x80
	flagPersistent = 0x40
	flagEFI        = 0x20
)

// keepOnTimeout keeps the flags valid when no power action follows within 60
// seconds: an installation may take longer to get to it.
const keepOnTimeout = 0x08

// selector is a boot device that IPMI can name, in bits 5:2 of byte 2.
type selector struct {
	target bmc.BootTarget
	code   byte
}

// selectors lists them; the first of a target is the one that is written.
func selectors() []selector {
	return []selector{
		{bmc.BootNone, 0x0},
		{bmc.BootPXE, 0x1},
		{bmc.BootDisk, 0x2},
		{bmc.BootCD, 0x5},
		{bmc.BootSetup, 0x6},
		{bmc.BootCD, 0x8}, // a remote one
	}
}

// flags are the first two bytes of the boot flags.
type flags struct{ mode, device byte }

func (f flags) override() (bmc.BootOverride, error) {
	out := bmc.BootOverride{Target: bmc.BootNone}
	if f.mode&flagValid == 0 {
		return out, nil
	}
	out.Mode = bmc.ModeBIOS
	if f.mode&flagEFI != 0 {
		out.Mode = bmc.ModeUEFI
	}
	code := f.device >> 2 & 0x0f
	if code == 0 {
		return out, nil
	}
	for _, s := range selectors() {
		if s.code == code {
			out.Target, out.Persistent = s.target, f.mode&flagPersistent != 0
			return out, nil
		}
	}
	return out, fmt.Errorf("%w: boot device selector %d is none that Ingot knows", bmc.ErrProtocol, code)
}

// BootOverride implements bmc.BootDevice. The mode is told only while the flags
// are valid: an old one means nothing.
func (c *conn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	f, err := c.bootFlags(ctx)
	if err != nil {
		return bmc.BootOverride{}, err
	}
	override, err := f.override()
	if err != nil {
		return bmc.BootOverride{}, fmt.Errorf("read boot override: %w", err)
	}
	return override, nil
}

func (c *conn) bootFlags(ctx context.Context) (flags, error) {
	data, err := c.run(ctx, command{
		what: "read boot override", netFn: netFnChassis, code: 0x09, data: []byte{bootFlags, 0, 0}, least: 4,
	})
	if err != nil {
		return flags{}, err
	}
	if data[1]&0x7f != bootFlags {
		return flags{}, fmt.Errorf("read boot override: %w: another boot option", bmc.ErrProtocol)
	}
	return flags{mode: data[2], device: data[3]}, nil
}

// SetBootOverride implements bmc.BootDevice. IPMI has no override without a mode:
// an empty Mode keeps that of the valid flags, and is UEFI where there are none,
// as servers are today.
func (c *conn) SetBootOverride(ctx context.Context, override bmc.BootOverride) error {
	what := fmt.Sprintf("boot override %s", override.Target)
	want, err := c.wantedFlags(ctx, override)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	// Not all know this option: then the override holds for 60 seconds.
	_, err = c.run(ctx, command{
		what: what + ": keep it", netFn: netFnChassis, code: 0x08, data: []byte{bootValidClear, keepOnTimeout}, write: true,
	})
	if err != nil && !isAnyCode(err) {
		return err
	}
	if _, err = c.run(ctx, command{
		what: what, netFn: netFnChassis, code: 0x08, data: []byte{bootFlags, want.mode, want.device, 0, 0, 0}, write: true,
	}); err != nil {
		return err
	}
	got, err := c.bootFlags(ctx)
	if err != nil {
		return fmt.Errorf("%s: read back: %w", what, err)
	}
	if override.Mode != "" && got.says(want, false) && !got.says(want, true) {
		return fmt.Errorf("%s: %w: the BMC took the device and not the mode %s: wrote flags %02Xh %02Xh, reads %02Xh %02Xh", what, bmc.ErrNotApplied,
			override.Mode, want.mode, want.device, got.mode, got.device)
	}
	if !got.says(want, override.Mode != "") {
		return fmt.Errorf("%s: %w: wrote flags %02Xh %02Xh, reads %02Xh %02Xh", what, bmc.ErrNotApplied,
			want.mode, want.device, got.mode, got.device)
	}
	return nil
}

// wantedFlags are the flags for an override.
func (c *conn) wantedFlags(ctx context.Context, override bmc.BootOverride) (flags, error) {
	want := flags{mode: flagValid}
	known := false
	for _, s := range selectors() {
		if s.target == override.Target && !known {
			want.device, known = s.code<<2, true
		}
	}
	if !known {
		return flags{}, fmt.Errorf("%w: IPMI has no such boot device (§28.13)", bmc.ErrNotSupported)
	}
	if override.Persistent && override.Target != bmc.BootNone {
		want.mode |= flagPersistent
	}
	mode := override.Mode
	if mode == "" {
		now, err := c.bootFlags(ctx)
		if err != nil {
			return flags{}, err
		}
		if mode = bmc.ModeUEFI; now.mode&(flagValid|flagEFI) == flagValid {
			mode = bmc.ModeBIOS
		}
	}
	if mode == bmc.ModeUEFI {
		want.mode |= flagEFI
	}
	return want, nil
}

// says compares what was read back. No override reads as no device or as flags
// that are not valid. The mode counts where it was asked for.
func (f flags) says(want flags, mode bool) bool {
	const device = 0x3c
	if want.device&device == 0 && (f.mode&flagValid == 0 || f.device&device == 0) {
		return true
	}
	mask := byte(flagValid | flagPersistent)
	if mode {
		mask |= flagEFI
	}
	return f.mode&mask == want.mode&mask && f.device&device == want.device&device
}

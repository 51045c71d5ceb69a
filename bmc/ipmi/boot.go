// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"
	"slices"

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

// keepOnTimeout keeps the flags valid if no power action follows within 60 seconds, because
// an installation may take longer.
const keepOnTimeout = 0x08

// selector is a boot device in bits 5:2 of byte 2.
type selector struct {
	target bmc.BootTarget
	code   byte
}

// selectors lists the boot devices; the first selector of a target is written.
func selectors() []selector {
	return []selector{
		{bmc.BootNone, 0x0},
		{bmc.BootPXE, 0x1},
		{bmc.BootDisk, 0x2},
		{bmc.BootCD, 0x5},
		{bmc.BootSetup, 0x6},
		{bmc.BootCD, 0x8}, // a remote drive
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
	return out, fmt.Errorf("%w: unknown boot device selector %d", bmc.ErrProtocol, code)
}

// BootOverride implements bmc.BootDevice. It returns the mode only if the flags are valid.
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
		what: "read boot override", netFn: netFnChassis, code: 0x09, data: []byte{bootFlags, 0, 0}, minLen: 4,
	})
	if err != nil {
		return flags{}, err
	}
	if data[1]&0x7f != bootFlags {
		return flags{}, fmt.Errorf("read boot override: %w: another boot option", bmc.ErrProtocol)
	}
	return flags{mode: data[2], device: data[3]}, nil
}

// SetBootOverride implements bmc.BootDevice. An override of IPMI always has a mode: an empty
// Mode keeps the mode of valid flags, and means UEFI otherwise.
func (c *conn) SetBootOverride(ctx context.Context, override bmc.BootOverride) error {
	what := fmt.Sprintf("boot override %s", override.Target)
	want, err := c.wantedFlags(ctx, override)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	// BMCs without this option keep the override for 60 seconds.
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
	if !got.matches(want, override.Mode != "") {
		why := ""
		if got.matches(want, false) {
			why = fmt.Sprintf("the BMC accepted the device but not mode %s: ", override.Mode)
		}
		return fmt.Errorf("%s: %w: %swrote flags %02Xh %02Xh, read %02Xh %02Xh", what, bmc.ErrNotApplied,
			why, want.mode, want.device, got.mode, got.device)
	}
	return nil
}

func (c *conn) wantedFlags(ctx context.Context, override bmc.BootOverride) (flags, error) {
	all := selectors()
	i := slices.IndexFunc(all, func(s selector) bool { return s.target == override.Target })
	if i < 0 {
		return flags{}, fmt.Errorf("%w: IPMI has no such boot device (§28.13)", bmc.ErrNotSupported)
	}
	want := flags{mode: flagValid, device: all[i].code << 2}
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

// matches compares flags that were read back. A missing override reads as no device or as
// invalid flags.
func (f flags) matches(want flags, withMode bool) bool {
	const device = 0x3c
	if want.device&device == 0 && (f.mode&flagValid == 0 || f.device&device == 0) {
		return true
	}
	mask := byte(flagValid | flagPersistent)
	if withMode {
		mask |= flagEFI
	}
	return f.mode&mask == want.mode&mask && f.device&device == want.device&device
}

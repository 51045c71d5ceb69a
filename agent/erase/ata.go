// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// ATACommand is a command of the ATA Command Set 4 (ACS-4), sent through SCSI's ATA
// PASS-THROUGH (16) (SAT-4, section 12.2.2).
type ATACommand struct {
	Command uint8
	// In is filled by the disk, Out goes to it; at most one of them, of 512 bytes.
	In, Out []byte
	Timeout time.Duration
}

// ATAPassword locks a drive while it erases itself, which the standard demands. It is
// no secret: should the drive lose power meanwhile, anybody unlocks it with
// "hdparm --user-master u --security-erase INGOT-ERASE".
const ATAPassword = "INGOT-ERASE"

// Commands of the security feature set (ACS-4, sections 7.13 and 7.37 to 7.42).
const (
	ataIdentify        = 0xec
	ataSetPassword     = 0xf1
	ataUnlock          = 0xf2
	ataErasePrepare    = 0xf3
	ataEraseUnit       = 0xf4
	ataDisablePassword = 0xf6
)

// ataSecurity is what a drive says of its security (words 82, 89, 90 and 128 of
// IDENTIFY DEVICE, ACS-4 section 7.13.6).
type ataSecurity struct {
	supported, enabled, locked, frozen, expired, enhanced bool
	// normalTime and enhancedTime are what an erase takes, 0 when unknown.
	normalTime, enhancedTime time.Duration
}

func parseIdentify(b []byte) ataSecurity {
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(b[2*n:]) }
	status := word(128)
	return ataSecurity{
		supported: word(82)&(1<<1) != 0 && status&1 != 0,
		enabled:   status&(1<<1) != 0, locked: status&(1<<2) != 0,
		frozen: status&(1<<3) != 0, expired: status&(1<<4) != 0, enhanced: status&(1<<5) != 0,
		normalTime: eraseTime(word(89)), enhancedTime: eraseTime(word(90)),
	}
}

// eraseTime reads words 89 and 90: units of two minutes in eight bits, or in fifteen
// where the highest is set.
func eraseTime(word uint16) time.Duration {
	if word&(1<<15) != 0 {
		return time.Duration(word&0x7fff) * 2 * time.Minute
	}
	return time.Duration(word&0xff) * 2 * time.Minute
}

// ataMethods are those of a drive with the security feature set that is not frozen.
func (e *eraser) ataMethods(ctx context.Context) ([]method, string) {
	security, err := e.identifyATA(ctx)
	switch {
	case errors.Is(err, ErrNotSupported):
		return nil, ""
	case err != nil:
		return nil, fmt.Sprintf("ATA: %v", err)
	case !security.supported:
		return nil, ""
	case security.frozen:
		return nil, "ATASecureErase: the firmware has frozen the drive's security; a cold start, or a setting of the firmware, may leave it open"
	case security.expired:
		return nil, "ATASecureErase: too many wrong passwords since the drive got power"
	case e.CutOff:
		return nil, "ATASecureErase: an earlier try was cut off in the middle of it, so the drive is not told to again"
	}
	secure := func(enhanced bool) func(context.Context) error {
		return func(ctx context.Context) error { return e.secureErase(ctx, enhanced) }
	}
	var list []method
	if security.enhanced {
		list = append(list, method{name: ATAEnhancedSecureErase, run: secure(true)})
	}
	return append(list, method{name: ATASecureErase, run: secure(false)}), ""
}

func (e *eraser) identifyATA(ctx context.Context) (ataSecurity, error) {
	data := make([]byte, 512)
	if err := e.Commands.ATA(ctx, ATACommand{Command: ataIdentify, In: data, Timeout: adminTimeout}); err != nil {
		return ataSecurity{}, err
	}
	e.ata = true
	return parseIdentify(data), nil
}

// openATA unlocks a drive that an earlier run left locked with our password, and says
// whether it was locked. A drive with another password stays as it is.
func (e *eraser) openATA(ctx context.Context) (cutOff bool, err error) {
	security, err := e.identifyATA(ctx)
	switch {
	case err != nil || !security.locked: // no ATA drive, or open
		return false, nil
	case security.frozen:
		return false, errors.New("the drive is locked, and the firmware has frozen its security: nobody can unlock it before it was without power")
	case security.expired:
		return false, errors.New("the drive is locked, and too many passwords were wrong: it takes none before it was without power")
	}
	e.opts.Log("erase: %s is locked, as by an erase that was cut off", e.Target.Disk.Name)
	if err := e.security(ctx, ataUnlock, false, adminTimeout); err != nil {
		return false, fmt.Errorf("the drive is locked with a password that is not Ingot's: unlock: %w", err)
	}
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		return false, fmt.Errorf("remove the password of an erase that was cut off: %w", err)
	}
	return true, nil
}

// leaveOpen makes sure that a drive that was erased, by whatever method, has no password:
// with one it would lock itself when its power goes, and look dead to whoever gets it.
func (e *eraser) leaveOpen(ctx context.Context) error {
	if !e.ata {
		return nil
	}
	security, err := e.identifyATA(ctx)
	if err != nil {
		return fmt.Errorf("look for a password: %w", err)
	}
	if !security.enabled {
		return nil
	}
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		why := "it is not Ingot's, or the drive is not well"
		if security.frozen {
			why = "the firmware has frozen the drive's security; the next try, after a cold start, may find it open"
		}
		return fmt.Errorf("it has a password and will lock itself when it loses power (%s); hdparm --user-master u --security-disable %s %s: %w",
			why, ATAPassword, e.Target.Disk.Name, err)
	}
	return nil
}

// secureErase sets the password, erases, and sees to it that none stays: a drive does
// not keep it over an erase that succeeds. Nothing begins once the work was called off.
func (e *eraser) secureErase(ctx context.Context, enhanced bool) error {
	security, err := e.identifyATA(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !security.enabled {
		if err := e.security(ctx, ataSetPassword, false, adminTimeout); err != nil {
			return fmt.Errorf("set the password: %w", err)
		}
	}
	if sent, err := e.eraseUnit(ctx, security, enhanced); err != nil {
		if sent && ctx.Err() != nil {
			return err // the drive is at it
		}
		return errors.Join(err, e.dropPassword(context.WithoutCancel(ctx)))
	}
	after, err := e.identifyATA(ctx)
	if err != nil {
		return fmt.Errorf("look at the drive after the erase: %w", err)
	}
	if after.enabled || after.locked {
		return errors.Join(errors.New("the drive still has its password, so it has not erased itself"), e.dropPassword(ctx))
	}
	return nil
}

// eraseUnit has the drive erase itself; sent says whether it was told to.
func (e *eraser) eraseUnit(ctx context.Context, security ataSecurity, enhanced bool) (sent bool, err error) {
	said := security.normalTime
	if enhanced {
		said = security.enhancedTime
	}
	limit := eraseLimit(said, e.size, e.Target.Disk.Rotational)
	if err := e.Commands.ATA(ctx, ATACommand{Command: ataErasePrepare, Timeout: adminTimeout}); err != nil {
		return false, fmt.Errorf("prepare the erase: %w", err)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	defer e.beat(ctx, limit)()
	if err := e.aside(ctx, limit, func() error { return e.security(ctx, ataEraseUnit, enhanced, limit) }); err != nil {
		return true, fmt.Errorf("erase: %w", err)
	}
	return true, nil
}

// slowestErase, in bytes a second, is what a disk that spins does on average at least. A
// large one may say nothing of the time, or no more than that it is above what words 89
// and 90 can say; cut off in the middle it would stay locked.
const slowestErase = 40e6

// eraseLimit is when a drive that was told to erase itself is given up.
func eraseLimit(said time.Duration, size int64, rotational bool) time.Duration {
	if rotational {
		said = max(said, time.Duration(size/slowestErase)*time.Second)
	}
	return deadline(said)
}

// dropPassword leaves a drive open on which the erase failed.
func (e *eraser) dropPassword(ctx context.Context) error {
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		return fmt.Errorf("remove the password %s again: %w", ATAPassword, err)
	}
	return nil
}

// security sends a command with the block of ACS-4 table 104: word 0 says whose
// password it is (bit 0, 0: the user's) and, for an erase, how (bit 1, enhanced);
// words 1 to 16 are the password.
func (e *eraser) security(ctx context.Context, command uint8, enhanced bool, timeout time.Duration) error {
	return e.Commands.ATA(ctx, ATACommand{Command: command, Out: securityBlock(enhanced), Timeout: timeout})
}

func securityBlock(enhanced bool) []byte {
	b := make([]byte, 512)
	if enhanced {
		b[0] = 1 << 1
	}
	copy(b[2:34], ATAPassword)
	return b
}

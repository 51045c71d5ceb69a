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

// ATACommand is a command of the ATA Command Set 4 (ACS-4) within SCSI's ATA PASS-THROUGH
// (16) (SAT-4, section 12.2.2).
type ATACommand struct {
	Command uint8
	// In is read from the disk, Out is sent to it. At most one of them is set, with 512 bytes.
	In, Out []byte
	Timeout time.Duration
}

// ATAPassword locks a drive while it erases itself, as the standard requires. It is public:
// after a power loss anyone can unlock the drive with
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

// ataSecurity is the state of a drive's security feature set (words 82, 89, 90 and 128 of
// IDENTIFY DEVICE, ACS-4 section 7.13.6).
type ataSecurity struct {
	supported, enabled, locked, frozen, expired, enhanced bool
	// normalTime and enhancedTime are the drive's estimates for an erase; 0: unknown.
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

// eraseTime decodes words 89 and 90: units of two minutes in eight bits, or in fifteen bits
// if the highest bit is set.
func eraseTime(word uint16) time.Duration {
	if word&(1<<15) != 0 {
		return time.Duration(word&0x7fff) * 2 * time.Minute
	}
	return time.Duration(word&0xff) * 2 * time.Minute
}

// ataMethods returns the methods of the drive, or the problem that prevents them.
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
		return nil, "ATASecureErase: firmware has frozen the drive's security; a cold start or a firmware setting may enable it"
	case security.expired:
		return nil, "ATASecureErase: too many wrong passwords since power-on"
	case e.CutOff:
		return nil, "ATASecureErase: not repeated, since an earlier attempt was interrupted"
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
	e.isATA = true
	return parseIdentify(data), nil
}

// unlockATA unlocks a drive that an earlier run left locked with ATAPassword, and reports
// whether it was locked. It does not change a drive with another password.
func (e *eraser) unlockATA(ctx context.Context) (cutOff bool, err error) {
	security, err := e.identifyATA(ctx)
	switch {
	case err != nil || !security.locked: // no ATA drive, or not locked
		return false, nil
	case security.frozen:
		return false, errors.New("unlock the drive: firmware has frozen its security until the next power loss")
	case security.expired:
		return false, errors.New("unlock the drive: too many wrong passwords; it accepts none until the next power loss")
	}
	e.opts.Log("erase: %s is locked, probably by an interrupted erase; unlocking", e.Target.Disk.Name)
	if err := e.security(ctx, ataUnlock, false, adminTimeout); err != nil {
		return false, fmt.Errorf("unlock the drive, which has a password that is not Ingot's: %w", err)
	}
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		return false, fmt.Errorf("remove the password of an interrupted erase: %w", err)
	}
	return true, nil
}

// checkNoPassword removes a password from an erased drive. With a password the drive would
// lock itself at the next power loss, and appear dead to its next user.
func (e *eraser) checkNoPassword(ctx context.Context) error {
	if !e.isATA {
		return nil
	}
	security, err := e.identifyATA(ctx)
	if err != nil {
		return fmt.Errorf("check for a password: %w", err)
	}
	if !security.enabled {
		return nil
	}
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		cause := "it is not Ingot's, or the drive is faulty"
		if security.frozen {
			cause = "firmware has frozen its security; retry after a cold start"
		}
		return fmt.Errorf("remove the password that will lock the drive at power loss (%s; hdparm --user-master u --security-disable %s %s): %w",
			cause, ATAPassword, e.Target.Disk.Name, err)
	}
	return nil
}

// secureErase sets the password, erases, and checks that the password is gone: a successful
// erase removes it. It starts nothing after the context's end.
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
			return err // the drive is erasing
		}
		return errors.Join(err, e.removePassword(context.WithoutCancel(ctx)))
	}
	after, err := e.identifyATA(ctx)
	if err != nil {
		return fmt.Errorf("identify the drive after the erase: %w", err)
	}
	if after.enabled || after.locked {
		return errors.Join(errors.New("the drive still has its password, so the erase did not happen"), e.removePassword(ctx))
	}
	return nil
}

// eraseUnit makes the drive erase itself. sent reports whether the command was sent.
func (e *eraser) eraseUnit(ctx context.Context, security ataSecurity, enhanced bool) (sent bool, err error) {
	estimate := security.normalTime
	if enhanced {
		estimate = security.enhancedTime
	}
	limit := eraseLimit(estimate, e.size, e.Target.Disk.Rotational)
	if err := e.Commands.ATA(ctx, ATACommand{Command: ataErasePrepare, Timeout: adminTimeout}); err != nil {
		return false, fmt.Errorf("prepare the erase: %w", err)
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	defer e.beat(ctx, limit)()
	if err := e.detached(ctx, limit, func() error { return e.security(ctx, ataEraseUnit, enhanced, limit) }); err != nil {
		return true, fmt.Errorf("erase: %w", err)
	}
	return true, nil
}

// slowestErase is the minimum average rate of a rotating disk, in bytes per second. A large
// disk may state no estimate, or one that words 89 and 90 cannot express. An erase that is
// interrupted too early would leave it locked.
const slowestErase = 40e6

// eraseLimit is the deadline of a drive's own erase.
func eraseLimit(estimate time.Duration, size int64, rotational bool) time.Duration {
	if rotational {
		estimate = max(estimate, time.Duration(size/slowestErase)*time.Second)
	}
	return deadline(estimate)
}

// removePassword unlocks a drive after a failed erase.
func (e *eraser) removePassword(ctx context.Context) error {
	if err := e.security(ctx, ataDisablePassword, false, adminTimeout); err != nil {
		return fmt.Errorf("remove the password %s: %w", ATAPassword, err)
	}
	return nil
}

// security sends a command of the security feature set with the password.
func (e *eraser) security(ctx context.Context, command uint8, enhanced bool, timeout time.Duration) error {
	return e.Commands.ATA(ctx, ATACommand{Command: command, Out: securityBlock(enhanced), Timeout: timeout})
}

// securityBlock encodes ACS-4 table 104: bit 0 of word 0 selects the password (0: user), bit
// 1 an enhanced erase, and words 1 to 16 are the password.
func securityBlock(enhanced bool) []byte {
	b := make([]byte, 512)
	if enhanced {
		b[0] = 1 << 1
	}
	copy(b[2:34], ATAPassword)
	return b
}

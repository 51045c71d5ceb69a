// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// Set User Password (§22.30).
const (
	setPassword = 0x02
	long        = 0x80 // 20 bytes instead of 16
)

// shortPassword is the longest password of IPMI v1.5, in bytes.
const shortPassword = 16

// SetPassword implements bmc.Accounts for the user of the connection. It returns
// bmc.ErrNotSupported, and sends nothing, for a password that is too long. The session
// stays open, and later sessions use the new password.
//
// Some BMCs (ipmi_sim 2.0.33) accept 20 bytes and store 16. A login verifies a longer password. If
// the BMC refuses that login, SetPassword restores the old password and returns bmc.ErrNotApplied.
func (c *conn) SetPassword(ctx context.Context, password bmc.Password) error {
	if err := checkPassword(password); err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	if password == "" {
		return fmt.Errorf("set password: %w: an empty password is not allowed", bmc.ErrNotSupported)
	}
	id, err := c.user(ctx)
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	if err := c.writePassword(ctx, id, password); err != nil {
		return err
	}
	if len(password.Reveal()) > shortPassword {
		if err := c.verifyPassword(ctx, id, password); err != nil {
			return err
		}
	}
	c.target.Password = password
	return nil
}

func (c *conn) writePassword(ctx context.Context, id byte, password bmc.Password) error {
	data, size := []byte{id, setPassword}, shortPassword
	if len(password.Reveal()) > size {
		data[0], size = id|long, maxPassword
	}
	data = append(data, make([]byte, size)...)
	copy(data[2:], password.Reveal())
	_, err := c.run(ctx, command{what: "set password", netFn: netFnApp, code: 0x47, data: data, write: true})
	return err
}

// verifyPassword logs in with a new password. It restores the old one if the BMC refuses the login.
func (c *conn) verifyPassword(ctx context.Context, id byte, password bmc.Password) error {
	target := c.target
	target.Password = password
	s, err := openSession(ctx, c.host, target)
	if err == nil {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		_ = s.close(end) // the login was the proof
		return nil
	}
	if !errors.Is(err, bmc.ErrUnauthorized) {
		return fmt.Errorf("set password: %w: the login to verify it failed: %w", bmc.ErrUnknownOutcome, err)
	}
	if err := c.writePassword(ctx, id, c.target.Password); err != nil {
		return fmt.Errorf("set password: %w: the BMC refuses the login and did not restore the old password: %w", bmc.ErrUnknownOutcome, err)
	}
	return fmt.Errorf("set password: %w: the BMC stores less than %d bytes of it; the old password is restored", bmc.ErrNotApplied, len(password.Reveal()))
}

// user returns the slot of the connection's user (§22.27, §22.29).
func (c *conn) user(ctx context.Context) (byte, error) {
	if c.userID != 0 {
		return c.userID, nil
	}
	access, err := c.run(ctx, command{what: "count users", netFn: netFnApp, code: 0x44, data: []byte{0x0e, 1}, minLen: 1})
	if err != nil {
		return 0, err
	}
	for id := byte(1); id <= access[0]&0x3f; id++ {
		name, err := c.run(ctx, command{what: "read user name", netFn: netFnApp, code: 0x46, data: []byte{id}, minLen: 1})
		if err != nil {
			if ignoreCode(err) == nil {
				continue // an empty slot
			}
			return 0, err
		}
		if name, _, _ := strings.Cut(string(name), "\x00"); name == c.target.Username {
			c.userID = id
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: the BMC does not list the connection's user", bmc.ErrProtocol)
}

// ResetBMC implements bmc.Resetter with Cold Reset (§20.2). BMCs may restart before they
// answer, which is bmc.ErrUnknownOutcome.
func (c *conn) ResetBMC(ctx context.Context) error {
	_, err := c.run(ctx, command{what: "reset BMC", netFn: netFnApp, code: 0x02, write: true})
	if err == nil {
		c.drop()
		c.sensors = repository{}
	}
	return err
}

// Indicator implements bmc.Indicator; many BMCs do not report the state (§28.2 table 28-3, byte 3).
func (c *conn) Indicator(ctx context.Context) (bool, error) {
	status, err := c.chassisStatus(ctx)
	if err != nil {
		return false, err
	}
	if status.misc&0x40 == 0 {
		return false, fmt.Errorf("indicator: %w: the chassis status does not report it", bmc.ErrNotSupported)
	}
	return status.misc&0x30 != 0, nil
}

// SetIndicator implements bmc.Indicator with Chassis Identify (§28.5) without a time limit.
func (c *conn) SetIndicator(ctx context.Context, lit bool) error {
	data := []byte{0, 0}
	if lit {
		data[1] = 1
	}
	_, err := c.run(ctx, command{what: "indicator", netFn: netFnChassis, code: 0x04, data: data, write: true})
	return err
}

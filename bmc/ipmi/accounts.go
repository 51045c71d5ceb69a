// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// Set User Password (§22.30).
const (
	setPassword = 0x02
	long        = 0x80 // 20 bytes instead of 16
)

// SetPassword implements bmc.Accounts for the user of the connection. A password
// that IPMI has no room for is bmc.ErrNotSupported before anything is sent. The
// session lives on; a new one is opened with the new password.
func (c *conn) SetPassword(ctx context.Context, password bmc.Password) error {
	if err := checkPassword(password); err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	if password == "" {
		return fmt.Errorf("set password: %w: an empty password is none", bmc.ErrNotSupported)
	}
	id, err := c.user(ctx)
	if err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	data, size := []byte{id, setPassword}, 16
	if len(password.Reveal()) > size {
		data[0], size = id|long, 20
	}
	data = append(data, make([]byte, size)...)
	copy(data[2:], password.Reveal())
	if _, err := c.run(ctx, command{what: "set password", netFn: netFnApp, code: 0x47, data: data, write: true}); err != nil {
		return err
	}
	c.target.Password = password
	return nil
}

// user finds the slot of the connection's user (§22.27, §22.29).
func (c *conn) user(ctx context.Context) (byte, error) {
	if c.userID != 0 {
		return c.userID, nil
	}
	access, err := c.run(ctx, command{what: "count users", netFn: netFnApp, code: 0x44, data: []byte{0x0e, 1}, least: 1})
	if err != nil {
		return 0, err
	}
	for id := byte(1); id <= access[0]&0x3f; id++ {
		name, err := c.run(ctx, command{what: "read user name", netFn: netFnApp, code: 0x46, data: []byte{id}, least: 1})
		if err != nil {
			if ignoreCode(err) == nil {
				continue // an empty slot
			}
			return 0, err
		}
		if trimZero(name) == c.target.Username {
			c.userID = id
			return id, nil
		}
	}
	return 0, fmt.Errorf("%w: the BMC lists no user of the connection's name", bmc.ErrProtocol)
}

func trimZero(b []byte) string {
	for i, x := range b {
		if x == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// ResetBMC implements bmc.Resetter by Cold Reset (§20.2), after which a new
// session is opened by the next call. BMCs may restart before they answer: that
// is bmc.ErrUnknownOutcome.
func (c *conn) ResetBMC(ctx context.Context) error {
	_, err := c.run(ctx, command{what: "reset BMC", netFn: netFnApp, code: 0x02, write: true})
	if err == nil {
		c.drop()
		c.records = nil
	}
	return err
}

// Indicator implements bmc.Indicator; many BMCs do not tell the state (§28.2 table
// 28-3, byte 3).
func (c *conn) Indicator(ctx context.Context) (bool, error) {
	status, err := c.chassisStatus(ctx)
	if err != nil {
		return false, err
	}
	if status.misc&0x40 == 0 {
		return false, fmt.Errorf("indicator: %w: the chassis status does not tell it", bmc.ErrNotSupported)
	}
	return status.misc&0x30 != 0, nil
}

// SetIndicator implements bmc.Indicator by Chassis Identify (§28.5) without an end.
func (c *conn) SetIndicator(ctx context.Context, lit bool) error {
	data := []byte{0, 0}
	if lit {
		data[1] = 1
	}
	_, err := c.run(ctx, command{what: "indicator", netFn: netFnChassis, code: 0x04, data: data, write: true})
	return err
}

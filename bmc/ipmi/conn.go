// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// Network functions of requests (§5.1 table 5-1).
const (
	netFnChassis = 0x00
	netFnSensor  = 0x04
	netFnApp     = 0x06
	netFnStorage = 0x0a
)

const (
	// maxUsername and maxPassword are the limits of IPMI v2.0 (§22.28, §22.30).
	maxUsername = 16
	maxPassword = 20
	// sessionLife is how long an unused session is used again: BMCs drop sessions after
	// 60 s ± 3 s (§6.12.15) and then do not answer.
	sessionLife = 45 * time.Second
	// closeWait bounds the end of a session after the caller's deadline.
	closeWait = 3 * time.Second
)

// Driver describes the capabilities of IPMI. It reports the BMC's firmware version and
// installs no images.
func Driver() bmc.Driver {
	return bmc.Driver{Name: Scheme, Dial: Dial, Probe: Probe, Offers: []bmc.Capability{
		bmc.CapFirmware, bmc.CapHealth, bmc.CapEventLog, bmc.CapConsole, bmc.CapAccounts, bmc.CapReset, bmc.CapIndicator,
	}}
}

// conn is a connection to one BMC. It may replace its session between calls.
type conn struct {
	bmc.Unsupported

	target bmc.Target
	host   string
	now    func() time.Time

	// session is nil after the last one was lost or closed.
	session *session
	used    time.Time
	closed  bool

	// restarted is the time of the last restart, see PowerState.
	restarted time.Time
	// sensors are read once.
	sensors repository
	// serverGUID is the GUID of the first session's server (§13.21). Later sessions must
	// have the same one.
	serverGUID [16]byte
	// userID is the slot of the target's user; 0: not looked up yet.
	userID byte
}

var _ bmc.Conn = (*conn)(nil)

// Dial opens a session with the BMC at ipmi://host[:port]. Errors wrap the sentinels of bmc:
//   - ErrAddress, also for a target that requires a certificate, which IPMI lacks;
//   - ErrUnreachable if no answer comes;
//   - ErrUnauthorized;
//   - ErrBusy for a full session table;
//   - ErrNotSupported for a BMC without IPMI v2.0 or the cipher suites 17 and 3, and for
//     credentials that are too long for IPMI, which are not sent.
func Dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	host, err := parseAddress(target.Address)
	if err != nil {
		return nil, fmt.Errorf("dial BMC: %w", err)
	}
	if target.Fingerprint != "" || len(target.CABundle) > 0 {
		return nil, fmt.Errorf("dial BMC: %w: ipmi:// has no certificate to verify", bmc.ErrAddress)
	}
	if err := checkUsername(target.Username); err != nil {
		return nil, fmt.Errorf("dial BMC: %w", err)
	}
	if err := checkPassword(target.Password); err != nil {
		return nil, fmt.Errorf("dial BMC: %w", err)
	}
	c := &conn{target: target, host: host, now: time.Now}
	if err := c.open(ctx); err != nil {
		return nil, fmt.Errorf("dial BMC %s: %w", host, err)
	}
	return c, nil
}

func checkUsername(name string) error {
	if len(name) > maxUsername || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: IPMI user names have at most %d bytes and no zero byte; this one has %d bytes", bmc.ErrNotSupported, maxUsername, len(name))
	}
	return nil
}

// checkPassword reveals only the length of a password.
func checkPassword(password bmc.Password) error {
	if n := len(password.Reveal()); n > maxPassword || strings.ContainsRune(password.Reveal(), 0) {
		return fmt.Errorf("%w: IPMI passwords have at most %d bytes and no zero byte; this one has %d bytes", bmc.ErrNotSupported, maxPassword, n)
	}
	return nil
}

func (c *conn) open(ctx context.Context) error {
	s, err := openSession(ctx, c.host, c.target)
	if err != nil {
		return err
	}
	if c.serverGUID != ([16]byte{}) && s.guid != c.serverGUID {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
		defer cancel()
		_ = s.close(end) // it sent no command
		return errSwapped
	}
	c.session, c.used, c.serverGUID = s, c.now(), s.guid
	return nil
}

// errSwapped ends the connection. The caller checks the server again after the next dial.
var errSwapped = fmt.Errorf("%w of an earlier session: another BMC answers at this address", bmc.ErrUnauthorized)

// errClosed reports a call after Close.
var errClosed = errors.New("connection is closed")

// ensureSession replaces a session that the BMC may have dropped.
func (c *conn) ensureSession(ctx context.Context) error {
	if c.closed {
		return errClosed
	}
	if c.session != nil && c.now().Sub(c.used) > sessionLife {
		c.session.forget()
		c.session = nil
	}
	if c.session == nil {
		return c.open(ctx)
	}
	return nil
}

// drop abandons a session that did not answer.
func (c *conn) drop() {
	if c.session != nil {
		c.session.forget()
		c.session = nil
	}
}

// command is one IPMI command.
type command struct {
	what  string
	netFn byte
	code  byte
	data  []byte
	// write is sent only once (I17).
	write bool
	// minLen is the minimum length of the answer's data.
	minLen int
}

// run runs a command and returns the data of its answer. A completion code other than 0 is a
// *codeError inside of the error; see isCode.
func (c *conn) run(ctx context.Context, cmd command) ([]byte, error) {
	if err := c.ensureSession(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.what, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.what, err) // nothing was sent
	}
	a, err := c.session.do(ctx, plan{once: cmd.write}, cmd.netFn, cmd.code, cmd.data)
	if errors.Is(err, errUnsent) {
		return nil, fmt.Errorf("%s: %w", cmd.what, err) // the session is unchanged
	}
	if err != nil {
		c.drop()
		return nil, unanswered(cmd.what, cmd.write, err)
	}
	c.used = c.now()
	if a.code != 0 {
		return nil, (&codeError{code: a.code}).as(cmd.what, cmd.write)
	}
	if len(a.data) < cmd.minLen {
		return nil, fmt.Errorf("%s: %w: %d bytes, want at least %d", cmd.what, bmc.ErrProtocol, len(a.data), cmd.minLen)
	}
	return a.data, nil
}

// Close ends the session at the BMC, even if ctx has ended. A second Close does nothing.
func (c *conn) Close(ctx context.Context) error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.session == nil {
		return nil
	}
	if c.now().Sub(c.used) > sessionLife {
		// The BMC may have dropped it already, and then does not answer.
		c.drop()
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	err := c.session.close(ctx)
	c.session = nil
	if err != nil {
		return fmt.Errorf("close BMC %s: %w", c.host, err)
	}
	return nil
}

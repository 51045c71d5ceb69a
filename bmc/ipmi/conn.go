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
	// maxUsername and maxPassword are what IPMI v2.0 has room for (§22.28, §22.30).
	maxUsername = 16
	maxPassword = 20
	// sessionLife is how long an unused session is trusted: BMCs forget them
	// after 60 s ± 3 s (§6.12.15) and then do not answer.
	sessionLife = 45 * time.Second
	// closeWait bounds the end of a session whose caller has run out of time.
	closeWait = 3 * time.Second
)

// Driver describes what IPMI can at best. Of firmware it tells the BMC's version, and
// takes no image.
func Driver() bmc.Driver {
	return bmc.Driver{Name: Scheme, Dial: Dial, Probe: Probe, Offers: []bmc.Capability{
		bmc.CapFirmware, bmc.CapHealth, bmc.CapEventLog, bmc.CapConsole, bmc.CapAccounts, bmc.CapReset, bmc.CapIndicator,
	}}
}

// conn is a connection to one BMC. A session of it may be replaced between calls.
type conn struct {
	bmc.Unsupported

	target bmc.Target
	host   string
	now    func() time.Time

	// session is nil after one was lost or closed.
	session *session
	used    time.Time
	closed  bool

	// restarted is when a restart was last asked for, see PowerState.
	restarted time.Time
	// sensors of the BMC, read once.
	sensors repository
	// serverGUID is the server's, as the BMC told it with its first session (§13.21); a session
	// that takes the place of another is with the same one.
	serverGUID [16]byte
	// userID is the slot of the target's user; 0: not looked up yet.
	userID byte
}

var _ bmc.Conn = (*conn)(nil)

// Dial opens a session with the BMC at ipmi://host[:port]. Errors wrap the
// sentinels of bmc: ErrAddress (also for a target that wants a certificate: IPMI has
// none), ErrUnreachable for silence, ErrUnauthorized,
// ErrBusy for a full session table, ErrNotSupported for a BMC without IPMI v2.0
// or without the cipher suites 17 and 3, or for credentials that IPMI has no room
// for; those are not sent.
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
		return fmt.Errorf("%w: IPMI user names have at most %d bytes, none of them 0; this one has %d", bmc.ErrNotSupported, maxUsername, len(name))
	}
	return nil
}

// checkPassword tells nothing of a password but its length.
func checkPassword(password bmc.Password) error {
	if n := len(password.Reveal()); n > maxPassword || strings.ContainsRune(password.Reveal(), 0) {
		return fmt.Errorf("%w: IPMI passwords have at most %d bytes, none of them 0; this one has %d", bmc.ErrNotSupported, maxPassword, n)
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
		_ = s.close(end) // nothing was asked of it
		return errSwapped
	}
	c.session, c.used, c.serverGUID = s, c.now(), s.guid
	return nil
}

// errSwapped ends the connection: whoever opens another learns whose BMC it is.
var errSwapped = fmt.Errorf("%w of an earlier session: another BMC answers here than before", bmc.ErrUnauthorized)

// errClosed reports a call after Close.
var errClosed = errors.New("connection is closed")

// ready replaces a session that the BMC may have forgotten.
func (c *conn) ready(ctx context.Context) error {
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

// drop gives up a session that did not answer.
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
	// write is sent once (I17).
	write bool
	// least is how many bytes the answer must have.
	least int
}

// run runs a command and returns its data. A completion code is a *codeError
// inside the error; see isCode.
func (c *conn) run(ctx context.Context, cmd command) ([]byte, error) {
	if err := c.ready(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.what, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", cmd.what, err) // nothing was sent
	}
	a, err := c.session.do(ctx, plan{once: cmd.write}, cmd.netFn, cmd.code, cmd.data)
	if errors.Is(err, errUnsent) {
		return nil, fmt.Errorf("%s: %w", cmd.what, err) // the session is as it was
	}
	if err != nil {
		c.drop()
		return nil, lost(cmd.what, cmd.write, err)
	}
	c.used = c.now()
	if a.code != 0 {
		return nil, (&codeError{code: a.code}).as(cmd.what, cmd.write)
	}
	if len(a.data) < cmd.least {
		return nil, fmt.Errorf("%s: %w: %d bytes where %d are the least", cmd.what, bmc.ErrProtocol, len(a.data), cmd.least)
	}
	return a.data, nil
}

// Close ends the session at the BMC, also when ctx has ended. A second Close does
// nothing.
func (c *conn) Close(ctx context.Context) error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.session == nil {
		return nil
	}
	if c.now().Sub(c.used) > sessionLife {
		// The BMC may have ended it itself, and then does not answer.
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

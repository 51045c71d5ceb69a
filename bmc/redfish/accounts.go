// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/bmc"
)

type accountServiceResource struct {
	Accounts link `json:"Accounts"`
}

type accountResource struct {
	UserName string `json:"UserName"`
}

// SetPassword implements bmc.Accounts for the account of the session.
func (c *conn) SetPassword(ctx context.Context, password bmc.Password) (err error) {
	c.begin(ctx)
	defer wrap(&err, "set password")
	c.secrets = append(c.secrets, password)
	path, err := c.ownAccount()
	if e, ok := refusal(err); ok && errors.Is(err, bmc.ErrPasswordChange) {
		path, err = e.accountToChange(), nil
		if path == "" {
			err = e
		}
	}
	if err == nil {
		err = c.patch(path, "", map[string]any{"Password": password.Reveal()})
	}
	return passwordError(err)
}

// accountToChange returns the path of the account that needs a new password; empty: the BMC names
// none.
func (e *callError) accountToChange() string {
	for _, m := range e.messages {
		if m.name() != "PasswordChangeRequired" {
			continue
		}
		for _, path := range slices.Concat(m.args, m.properties) {
			if isLink(path) {
				return path
			}
		}
	}
	return ""
}

// passwordError returns ErrPasswordRefused if the BMC refused this password, rather than any
// password: BMCs answer 400 in both cases (DSP0266 §8.3), with different messages. The text of the
// BMC's policy goes to the operator unparsed: every vendor words it differently.
func passwordError(err error) error {
	e, ok := refusal(err)
	if !ok || e.status != http.StatusBadRequest && e.status != http.StatusUnprocessableEntity || !errors.Is(err, bmc.ErrNotSupported) {
		return err
	}
	for _, cannot := range []string{"PropertyNotWritable", "PropertyUnknown", "ActionNotSupported", "OperationNotAllowed", "PropertyMissing"} {
		if e.has(cannot) {
			return err
		}
	}
	return fmt.Errorf("%w: BMC answered %d %q", bmc.ErrPasswordRefused, e.status, e.shown)
}

// ownAccount finds the account of the session's user. The session may show the name in another
// spelling than that of the login.
func (c *conn) ownAccount() (string, error) {
	names := []string{c.target.Username}
	var own accountResource
	if err := ignoreUnsupported(c.get(c.session, &own)); err != nil {
		return "", err
	}
	if own.UserName != "" {
		names = append(names, own.UserName)
	}
	if c.root.AccountService.ID == "" {
		return "", notSupported("the BMC has no AccountService")
	}
	var service accountServiceResource
	if err := c.get(c.root.AccountService.ID, &service); err != nil {
		return "", err
	}
	if service.Accounts.ID == "" {
		return "", notSupported("the AccountService has no accounts")
	}
	members, err := c.members(service.Accounts.ID)
	if err != nil {
		return "", err
	}
	var unread error
	for _, path := range members {
		var account accountResource
		if err := c.get(path, &account); err != nil {
			if ignoreUnsupported(err) != nil && !brokeDown(err) {
				return "", err
			}
			unread = cmp.Or(unread, ignoreUnsupported(err))
			continue
		}
		if account.UserName != "" && slices.Contains(names, account.UserName) {
			return path, nil
		}
	}
	if unread != nil {
		return "", unread
	}
	return "", notSupported("no account has the user name of the session")
}

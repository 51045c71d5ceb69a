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

// SetPassword implements bmc.Accounts: of the account that the session belongs to.
func (c *conn) SetPassword(ctx context.Context, password bmc.Password) error {
	c.begin(ctx)
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
	if err != nil {
		return fmt.Errorf("set password: %w", passwordError(err))
	}
	return nil
}

// accountToChange is the path of the account whose password the BMC wants changed; empty: it
// names none.
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

// passwordError tells a BMC that takes no passwords from one that does not take this
// one: both answer 400 (DSP0266 §8.3), and say which by the message. What the message is
// of the BMC's own policy is left to the reader: every maker has words of its own.
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

// ownAccount finds the account by the user whom the session names, which may be
// written otherwise than the one that logged in.
func (c *conn) ownAccount() (string, error) {
	names := []string{c.target.Username}
	var own accountResource
	if err := optional(c.get(c.session, &own)); err != nil {
		return "", err
	}
	if own.UserName != "" {
		names = append(names, own.UserName)
	}
	if c.root.AccountService.ID == "" {
		return "", lacking("the BMC has no AccountService")
	}
	var service accountServiceResource
	if err := c.get(c.root.AccountService.ID, &service); err != nil {
		return "", err
	}
	if service.Accounts.ID == "" {
		return "", lacking("the AccountService has no accounts")
	}
	members, err := c.members(service.Accounts.ID)
	if err != nil {
		return "", err
	}
	var unread error
	for _, path := range members {
		var account accountResource
		if err := c.get(path, &account); err != nil {
			if optional(err) != nil && !brokeDown(err) {
				return "", err
			}
			unread = cmp.Or(unread, optional(err))
			continue
		}
		if account.UserName != "" && slices.Contains(names, account.UserName) {
			return path, nil
		}
	}
	if unread != nil {
		return "", unread
	}
	return "", lacking("none of the accounts is the session's user")
}

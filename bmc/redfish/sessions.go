// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// maxSweep bounds the sessions that are looked at for ours.
const maxSweep = 64

// keepsContext are the vendors whose BMC takes Session.Context (DSP0268, Session
// v1.5) with a login and shows it: bmcweb does. Others may refuse a login with a
// property that they do not know, so nobody else is sent one.
var keepsContext = regexp.MustCompile(`(?i)^openbmc\b`)

// mark is what the session's Context is to be; empty: none.
func (c *conn) mark() string {
	if !keepsContext.MatchString(strings.TrimSpace(c.root.Vendor)) {
		return ""
	}
	return c.target.Mark.String()
}

// postLogin sends the credentials, with a mark where there is one. A BMC of an age
// that does not know it says so and opens nothing; it then gets the login without.
func (c *conn) postLogin(path, mark string) (*http.Response, error) {
	body := map[string]string{"UserName": c.target.Username, "Password": c.target.Password.Reveal()}
	if mark != "" {
		body["Context"] = mark
	}
	bmc.Committed(c.transport.ctx)
	resp, err := c.client.Post(path, body)
	if err == nil {
		c.marked = mark != ""
		return resp, nil
	}
	err = c.failure(session, "open session", err)
	if e, ok := refusal(err); ok && mark != "" && e.status == http.StatusBadRequest && e.has("PropertyUnknown") {
		return c.postLogin(path, "")
	}
	return nil, err
}

type sessionResource struct {
	UserName string `json:"UserName"`
	Context  string `json:"Context"`
}

// SweepSessions implements bmc.Sweeper: it ends the sessions of the same user whose
// mark is of an earlier life, and no others. Where the BMC keeps no marks nothing is
// provably ours, and it reads nothing.
func (c *conn) SweepSessions(ctx context.Context) (int, error) {
	if !c.marked {
		return 0, nil
	}
	c.begin(ctx)
	paths, err := c.membersUpTo(c.sessions, maxSweep)
	if err != nil {
		return 0, fmt.Errorf("look for sessions left open: %w", err)
	}
	ended := 0
	var errs []error
	for _, path := range paths {
		var s sessionResource
		if path == c.session || c.get(path, &s) != nil { // it may have ended meanwhile
			continue
		}
		if s.UserName != c.target.Username || !c.target.Mark.Earlier(s.Context) {
			continue
		}
		if _, err := c.client.Delete(path); err != nil {
			errs = append(errs, c.failure(session, "end a session left open", err))
			continue
		}
		ended++
	}
	return ended, errors.Join(errs...)
}

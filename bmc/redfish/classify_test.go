// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"errors"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
)

// TestRefusalClasses checks the class of each refusal.
func TestRefusalClasses(t *testing.T) {
	const full = "the maximum number of user sessions is reached"
	for _, tc := range []struct {
		name    string
		kind    callKind
		status  int
		id      string
		message string
		header  string
		want    error
		wait    time.Duration
	}{
		{"401", read, 401, "", "", "", bmc.ErrUnauthorized, 0},
		{"403 of a write", write, 403, "", "", "", bmc.ErrUnauthorized, 0},
		{"sessions full by id", session, 400, "Base.1.8.SessionLimitExceeded", "", "", bmc.ErrBusy, 0},
		{"sessions full by id, 403", session, 403, "Base.1.0.SessionLimitExceeded", "", "", bmc.ErrBusy, 0},
		{"sessions full by text", session, 403, "iDRAC.2.8.RAC0218", full, "", bmc.ErrBusy, 0},
		{"the same text without a login", read, 403, "", full, "", bmc.ErrUnauthorized, 0},
		{"missing license, read", read, 403, "SMC.1.0.OemLicenseNotPassed", "Not licensed to perform this request. The following licenses DCMS  were needed", "", bmc.ErrNotSupported, 0},
		{"missing license, write", write, 403, "IDRAC.2.8.SWC0242", "A required license is missing or expired.", "", bmc.ErrNotSupported, 0},
		{"login that mentions a license", session, 401, "", "no license", "", bmc.ErrUnauthorized, 0},
		{"a wrong password by 400", session, 400, "iLO.2.14.UnauthorizedLoginAttempt", "", "", bmc.ErrUnauthorized, 0},
		{"429", read, 429, "", "", "3", bmc.ErrBusy, 3 * time.Second},
		{"503", write, 503, "", "", "", bmc.ErrBusy, 0},
		{"409", write, 409, "", "", "", bmc.ErrBusy, 0},
		{"409 that says how long", write, 409, "", "", "60", bmc.ErrBusy, time.Minute},
		{"in POST", write, 400, "", "The system is in POST state", "", bmc.ErrNotSupported, 0},
		{"in POST by ID", write, 400, "iLO.2.37.UnableToModifyDuringSystemPOST", "", "", bmc.ErrBusy, 10 * time.Second},
		{"in POST by ID, of a later registry", write, 409, "iLO.9.0.UnableToModifyDuringSystemPOST", "", "", bmc.ErrBusy, 10 * time.Second},
		{"not in this state, by ID", write, 400, "iLO.2.14.InvalidOperationForSystemState", "", "", bmc.ErrBusy, 10 * time.Second},
		{"not ready, read", read, 400, "HpeCommon.2.1.ResourceNotReadyRetry", "", "", bmc.ErrBusy, 10 * time.Second},
		{"not ready, with Retry-After", write, 400, "Base.1.16.ServiceShuttingDown", "", "90", bmc.ErrBusy, 90 * time.Second},
		{"message with the same ending", write, 400, "X.1.0.NotUnableToModifyDuringSystemPOST", "", "", bmc.ErrNotSupported, 0},
		{"401 with a temporary ID", read, 401, "Base.1.16.ServiceShuttingDown", "", "", bmc.ErrUnauthorized, 0},
		{"400 of a write", write, 400, "", "", "", bmc.ErrNotSupported, 0},
		{"400 of a read", read, 400, "", "", "", bmc.ErrProtocol, 0},
		{"404", write, 404, "", "", "", bmc.ErrNotSupported, 0},
		{"405", write, 405, "", "", "", bmc.ErrNotSupported, 0},
		{"501", write, 501, "", "", "", bmc.ErrNotSupported, 0},
		{"412", write, 412, "", "", "", bmc.ErrProtocol, 0},
		{"500 of a write", write, 500, "", "", "", bmc.ErrUnknownOutcome, 0},
		{"504 of a write", write, 504, "", "", "", bmc.ErrUnknownOutcome, 0},
		{"500 of a read", read, 500, "", "", "", bmc.ErrBusy, 0},
		{"password change required", read, 403, "Base.1.8.PasswordChangeRequired", "", "", bmc.ErrPasswordChange, 0},
		{"502 of a read", read, 502, "", "", "", bmc.ErrBusy, 0},
		{"302", read, 302, "", "", "", bmc.ErrProtocol, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &conn{transport: &transport{last: exchange{status: tc.status, retryAfter: tc.header}}}
			err := c.refusalSentinel(tc.kind, &callError{status: tc.status, messages: []message{{id: tc.id}}}, tc.message)
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			var busy *bmc.BusyError
			if errors.As(err, &busy) && busy.RetryAfter != tc.wait {
				t.Errorf("wait %s, want %s", busy.RetryAfter, tc.wait)
			}
		})
	}
}

func TestLinks(t *testing.T) {
	for path, want := range map[string]bool{
		"/redfish/v1/Systems/1": true, "/a?x=1": true, "": false, "x": false, "//evil/x": false, "@evil/x": false,
		"https://evil/": false, "/a b": false, "/a\r\nX: y": false, `/\evil`: false,
	} {
		if isLink(path) != want {
			t.Errorf("isLink(%q) = %v", path, !want)
		}
	}
}

func TestTagFor(t *testing.T) {
	c := &conn{traits: []trait{cutGzipTag}}
	for tag, want := range map[string]string{
		`"v1"`: `"v1"`, `"v1-gzip"`: `"v1"`, `W/"v1-gzip"`: `W/"v1"`, `v1-gzip`: `v1`, "": "",
	} {
		if got := c.tagFor(tag); got != want {
			t.Errorf("%s: %s, want %s", tag, got, want)
		}
		if got := (&conn{}).tagFor(tag); got != tag {
			t.Errorf("%s: %s without the trait", tag, got)
		}
	}
}

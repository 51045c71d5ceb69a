// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/lab/bmc/fault"
	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// isLogout reports whether a request ends a session.
func isLogout(method, path string) bool {
	return method == "DELETE" && strings.Contains(path, "/Sessions/")
}

// TestUnsentPush checks that a push is ErrUnsent if the BMC refuses to end the Redfish session or
// to let bmclib log in, although the image was read.
func TestUnsentPush(t *testing.T) {
	for name, match := range map[string]func(method, path string) bool{
		"end of our session":     isLogout,
		"the library's requests": func(method, path string) bool { return !isLogout(method, path) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
			conn := r.dial(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hangs := match
			r.SetFaults(fault.Faults{Hang: true, Match: func(method, path string) bool {
				if !hangs(method, path) {
					return false
				}
				cancel() // bounds the wait
				return true
			}})
			_, err := conn.UpdateFirmware(ctx, image(update.BIOS))
			if !errors.Is(err, bmc.ErrUnsent) {
				t.Errorf("error %v, want ErrUnsent", err)
			}
			if n := r.PushedBytes(); n != 0 {
				t.Errorf("%d bytes were pushed", n)
			}
		})
	}
}

// TestSessionsEndAfterUnauthorized checks that a session whose logout got 401 is ended by a later
// logout, also if bmclib was used in between.
func TestSessionsEndAfterUnauthorized(t *testing.T) {
	r := newPersonality(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
	conn := r.dial(t)
	ended := false
	r.SetFaults(fault.Faults{Status: 401, Match: func(method, path string) bool {
		first := isLogout(method, path) && !ended
		ended = ended || first
		return first
	}})
	if _, err := conn.UpdateFirmware(t.Context(), image(update.BIOS)); err != nil {
		t.Fatal(err)
	}
	r.SetFaults()
	if n := r.BMC.Sessions(); n != 2 {
		t.Errorf("%d sessions, want ours and the one that was left", n)
	}
	lingerer, can := conn.(bmc.MaybeOpen)
	if !can || !lingerer.MayBeOpen() {
		t.Error("the remaining session is unknown")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.BMC.Sessions(); n != 0 || lingerer.MayBeOpen() {
		t.Errorf("%d sessions are left, lingers %t", n, lingerer.MayBeOpen())
	}
}

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

// isLogout says whether a request ends a session.
func isLogout(method, path string) bool {
	return method == "DELETE" && strings.Contains(path, "/Sessions/")
}

// TestPushThatNeverBegan: a BMC that does not let our session go, or the library in, was
// sent no image, though the image was read.
func TestPushThatNeverBegan(t *testing.T) {
	for name, match := range map[string]func(method, path string) bool{
		"end of our session":     isLogout,
		"the library's requests": func(method, path string) bool { return !isLogout(method, path) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newMaker(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
			conn := r.dial(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			hangs := match
			r.SetFaults(fault.Faults{Hang: true, Match: func(method, path string) bool {
				if !hangs(method, path) {
					return false
				}
				cancel() // nobody waits for ever
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

// TestNothingLingers: a BMC that answers 401 to the end of our session keeps it; with the
// next end it is ended, also where the library had its turn in between.
func TestNothingLingers(t *testing.T) {
	r := newMaker(t, bmctest.DriverDell, bmctest.IDRAC9, nil)
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
	lingerer, can := conn.(bmc.Lingerer)
	if !can || !lingerer.Lingers() {
		t.Error("nobody knows of the session that was left")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n := r.BMC.Sessions(); n != 0 || lingerer.Lingers() {
		t.Errorf("%d sessions are left, lingers %t", n, lingerer.Lingers())
	}
}

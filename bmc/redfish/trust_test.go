// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/bmc/trust"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestPinnedCertificate checks that a BMC with an untrusted certificate is accepted by its
// fingerprint. With another certificate, neither the open session nor a new one sends anything.
func TestPinnedCertificate(t *testing.T) {
	r := newRig(t, nil)
	first, err := trust.Probe(t.Context(), bmc.Target{}, strings.TrimPrefix(r.Address(), "redfish://"))
	if err != nil {
		t.Fatal(err)
	}
	if n := r.OpenedSessions(); n != 0 || r.Reads() != 0 {
		t.Errorf("the probe made %d sessions and %d reads", n, r.Reads())
	}
	r.target.CABundle, r.target.Fingerprint = nil, first
	conn, err := redfish.Dial(t.Context(), r.target)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.PowerState(t.Context()); err != nil {
		t.Errorf("over the pinned certificate: %v", err)
	}

	other, err := labbmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	r.SetAuthority(other)
	now, err := trust.Probe(t.Context(), bmc.Target{}, strings.TrimPrefix(r.Address(), "redfish://"))
	if err != nil {
		t.Fatal(err)
	}
	reads, opened := r.Reads(), r.OpenedSessions()
	_, readErr := conn.PowerState(t.Context())
	_, dialErr := redfish.Dial(t.Context(), r.target)
	for what, err := range map[string]error{"an open session": readErr, "a new session": dialErr} {
		var detail *bmc.CertificateError
		if !errors.As(err, &detail) || detail.Problem != bmc.CertificateNotPinned || detail.Presented != now || !errors.Is(err, bmc.ErrCertificate) {
			t.Errorf("%s: %v, want a refusal of %s", what, err, now)
			continue
		}
		if text := err.Error(); !strings.Contains(text, now) || !strings.Contains(text, first) || strings.Count(text, bmc.ErrCertificate.Error()) != 1 {
			t.Errorf("%s: text %q", what, text)
		}
	}
	if r.Reads() != reads || r.OpenedSessions() != opened {
		t.Error("something was sent to a BMC with another certificate")
	}
	r.target.Fingerprint = now
	if again := r.dial(t); again != nil {
		if _, err := again.PowerState(t.Context()); err != nil {
			t.Errorf("over the new pin: %v", err)
		}
	}
	if err := conn.Close(context.Background()); !errors.Is(err, bmc.ErrCertificate) {
		t.Errorf("Close at a BMC with another certificate: %v", err)
	}
	r.Down() // the session that could not be ended
	if err := r.Up(); err != nil {
		t.Fatal(err)
	}
}

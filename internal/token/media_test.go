// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestDisc(t *testing.T) {
	const bootMAC = "52:54:00:12:34:5f"
	key := func(b byte) []byte { return bytes.Repeat([]byte{b}, MinKeyBytes) }
	newKeys := func(list ...[]byte) Keys {
		keys, err := NewKeys(list...)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	keys := newKeys(key(1))
	claims := Claims{Namespace: "n", Host: "h", OrderID: "o", InstanceID: "i", Attempt: 2}
	ticket := keys.MediaToken(bootMAC, claims)
	if !regexp.MustCompile(`^52540012345f-[A-Za-z0-9_-]{43}$`).MatchString(ticket) {
		t.Errorf("ticket %q", ticket)
	}
	if again := keys.MediaToken(bootMAC, Claims{Namespace: "n", Host: "h", OrderID: "o", InstanceID: "i", Attempt: 2, Purpose: Install, Expiry: time.Now()}); again != ticket {
		t.Errorf("purpose and expiry count: %q and %q", again, ticket)
	}
	if got, ok := MediaTokenMAC(ticket); !ok || got != bootMAC {
		t.Errorf("MAC address %q, %v", got, ok)
	}
	for name, tc := range map[string]struct {
		keys   Keys
		ticket string
		mac    string
		change func(*Claims)
		want   bool
	}{
		"the same":        {keys, ticket, bootMAC, nil, true},
		"by an old key":   {newKeys(key(2), key(1)), ticket, bootMAC, nil, true},
		"by another key":  {newKeys(key(2)), ticket, bootMAC, nil, false},
		"another address": {keys, ticket, "52:54:00:12:34:60", nil, false},
		"another order":   {keys, ticket, bootMAC, func(c *Claims) { c.OrderID = "p" }, false},
		"another attempt": {keys, ticket, bootMAC, func(c *Claims) { c.Attempt = 3 }, false},
		"another host":    {keys, ticket, bootMAC, func(c *Claims) { c.Host = "g" }, false},
		"a guess":         {keys, ticket[:13] + strings.Repeat("A", 43), bootMAC, nil, false},
		"nothing":         {keys, "", bootMAC, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := claims
			if tc.change != nil {
				tc.change(&c)
			}
			if got := tc.keys.IsMediaToken(tc.ticket, tc.mac, c); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
	for _, text := range []string{"", "-", "52540012345f", "52540012345-x", "5254001234zz-x", "52540012345F-x", strings.Repeat("a", 100)} {
		if got, ok := MediaTokenMAC(text); ok {
			t.Errorf("%q is taken for the ticket of %s", text, got)
		}
	}
	// A ticket gives nobody a session.
	if _, err := keys.Verify(ticket); err == nil {
		t.Error("a ticket is taken for a token")
	}
}

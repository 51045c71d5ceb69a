// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
)

func TestNewPassword(t *testing.T) {
	seen := map[bmc.Password]bool{}
	for range 500 {
		password, err := newPassword(rand.Reader, LengthIPMI)
		if err != nil {
			t.Fatal(err)
		}
		text := password.Reveal()
		if len(text) != LengthIPMI || !fitsPolicies(text) || strings.ContainsAny(text, "0O1lI\"'\\$&<> ") || seen[password] {
			t.Fatalf("password %q", text)
		}
		seen[password] = true
	}
	for _, text := range []string{"ABCDEFGH-2345678", "abcdefgh-2345678", "ABCDefghABCDefg-", "ABCDefgh23456789", "-BCDefgh23456789", "AAABefgh-3456789"} {
		if fitsPolicies(text) {
			t.Errorf("%q fits", text)
		}
	}
	if _, err := newPassword(exhausted{}, LengthIPMI); !errors.Is(err, errExhausted) {
		t.Errorf("without random bytes: %v", err)
	}
	for address, want := range map[string]int{
		"redfish://bmc": LengthRedfish, "redfish+http://bmc": LengthRedfish, "ipmi://bmc": LengthIPMI, "bmc": LengthIPMI, "vendor+dell://bmc": LengthIPMI, "?": LengthIPMI,
	} {
		if got := passwordLength(address); got != want {
			t.Errorf("length for %q = %d, want %d", address, got, want)
		}
	}
}

var errExhausted = errors.New("no random bytes")

type exhausted struct{}

func (exhausted) Read([]byte) (int, error) { return 0, errExhausted }

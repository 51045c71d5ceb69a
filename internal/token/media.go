// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"crypto/hmac"
	"strings"
	"time"
)

// discDomain keeps the MACs of tickets and of tokens apart: the text of a token begins
// with its version.
const discDomain = "disc/"

// Disc writes the ticket for the CD image of one boot MAC address, for the order that
// the claims name: the address without colons, "-", and a MAC over both. Purpose and
// expiry of the claims do not count: a ticket is as good as its order is open. It is
// letters, digits, "-" and "_", 56 of them, since BMCs bound the length of addresses.
func (k Keys) Disc(bootMAC string, c Claims) string { return disc(k.keys[0], bootMAC, c) }

func disc(key []byte, bootMAC string, c Claims) string {
	c.Purpose, c.Expiry = none, time.Unix(0, 0)
	return strings.ReplaceAll(bootMAC, ":", "") + "-" + mac(key, discDomain+bootMAC+"/"+c.text())
}

// IsDisc says whether a ticket is the one for this address and these claims, by any of
// the keys and in constant time.
func (k Keys) IsDisc(ticket, bootMAC string, c Claims) bool {
	valid := false
	for _, key := range k.keys {
		if hmac.Equal([]byte(ticket), []byte(disc(key, bootMAC, c))) {
			valid = true
		}
	}
	return valid
}

// DiscMAC is the boot MAC address that a ticket says it is for, in lower case with
// colons; false: it is no ticket. Whether it is right is IsDisc's to say.
func DiscMAC(ticket string) (string, bool) {
	digits, _, ok := strings.Cut(ticket, "-")
	if !ok || len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" {
		return "", false
	}
	var parts []string
	for i := 0; i < len(digits); i += 2 {
		parts = append(parts, digits[i:i+2])
	}
	return strings.Join(parts, ":"), true
}

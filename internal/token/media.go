// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/hex"
	"net"
	"strings"
	"time"
)

// mediaDomain separates the MACs of media tokens from those of tokens, whose text starts with a
// version.
const mediaDomain = "disc/"

// MediaToken returns the token of the CD image for a boot MAC address and the order of the claims:
// the address without colons, "-", and a MAC over both. The claims' purpose and expiry do not count:
// the token is valid while the order is open. It has 56 letters, digits, "-" and "_", since BMCs
// limit the length of URLs.
func (k Keys) MediaToken(bootMAC string, c Claims) string { return mediaToken(k.keys[0], bootMAC, c) }

func mediaToken(key []byte, bootMAC string, c Claims) string {
	c.Purpose, c.Expiry = none, time.Unix(0, 0)
	return strings.ReplaceAll(bootMAC, ":", "") + "-" + mac(key, mediaDomain+bootMAC+"/"+c.text())
}

// IsMediaToken reports whether the media token belongs to the address and claims, by any of the keys.
func (k Keys) IsMediaToken(token, bootMAC string, c Claims) bool {
	return k.anyEqual([]byte(token), func(key []byte) []byte { return []byte(mediaToken(key, bootMAC, c)) })
}

// MediaTokenMAC returns the boot MAC address that a media token names, in lower case with colons. It
// does not verify the token. It returns false for a text of another form.
func MediaTokenMAC(token string) (string, bool) {
	digits, _, ok := strings.Cut(token, "-")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) != 6 || digits != strings.ToLower(digits) {
		return "", false
	}
	return net.HardwareAddr(raw).String(), true
}

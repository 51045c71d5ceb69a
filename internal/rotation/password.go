// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"crypto/rand"
	"fmt"
	"io"
	"math/big"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// Lengths of new passwords, in bytes. IPMI has room for 20, and many BMCs keep 16
// (IPMI v2.0 §22.30); at 16 a password of this alphabet still has 94 bits.
const (
	LengthRedfish = 20
	LengthIPMI    = 16
)

// passwordClasses are the characters of new passwords: each class at least once, as
// makers' policies want it. People type them at consoles of any keyboard and paste
// them into shells: none looks like another, and none means anything to a shell, a
// URL or a URI in a BMC's own command line.
func passwordClasses() []string {
	return []string{"ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz", "23456789", "-_"}
}

// passwordLength is how long a password the BMC at an address takes; one that may be
// spoken to by IPMI gets what IPMI has room for.
func passwordLength(text string) int {
	address, err := bmcaddress.Parse(text)
	if err == nil && (address.Scheme == bmcaddress.Redfish || address.Scheme == bmcaddress.RedfishHTTP) {
		return LengthRedfish
	}
	return LengthIPMI
}

// newPassword makes a password from random bytes: those that fit no policy are thrown
// away, so that all others are equally likely. random is crypto/rand.Reader but in tests.
func newPassword(random io.Reader, length int) (bmc.Password, error) {
	alphabet := strings.Join(passwordClasses(), "")
	for {
		text := make([]byte, length)
		for i := range text {
			n, err := rand.Int(random, big.NewInt(int64(len(alphabet))))
			if err != nil {
				return "", fmt.Errorf("make a password: %w", err)
			}
			text[i] = alphabet[n.Int64()]
		}
		if fitsPolicies(string(text)) {
			return bmc.Password(text), nil
		}
	}
}

// fitsPolicies says whether a password begins with a letter, has every class, and no
// character three times in a row.
func fitsPolicies(text string) bool {
	for i := 2; i < len(text); i++ {
		if text[i] == text[i-1] && text[i] == text[i-2] {
			return false
		}
	}
	classes := passwordClasses()
	for _, class := range classes {
		if !strings.ContainsAny(text, class) {
			return false
		}
	}
	return strings.ContainsAny(text[:1], classes[0]+classes[1])
}

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

// Lengths of new passwords, in bytes. IPMI allows 20, but many BMCs keep only 16 (IPMI v2.0 section
// 22.30). With 16, a password of this alphabet has 94 bits.
const (
	LengthRedfish = 20
	LengthIPMI    = 16
)

// passwordClasses returns the character classes of new passwords. Vendors' policies require each
// class. People type passwords at any keyboard and paste them into shells: no character looks like
// another, or is special to a shell, a URL or a BMC's command line.
func passwordClasses() []string {
	return []string{"ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz", "23456789", "-_"}
}

// passwordLength returns the length of passwords for the BMC at an address. A BMC that Ingot may
// call by IPMI gets LengthIPMI.
func passwordLength(text string) int {
	address, err := bmcaddress.Parse(text)
	if err == nil && (address.Scheme == bmcaddress.Redfish || address.Scheme == bmcaddress.RedfishHTTP) {
		return LengthRedfish
	}
	return LengthIPMI
}

// newPassword returns a random password. It drops passwords that do not fit the policies, so that all
// others are equally likely.
func newPassword(random io.Reader, length int) (bmc.Password, error) {
	alphabet := strings.Join(passwordClasses(), "")
	for {
		text := make([]byte, length)
		for i := range text {
			n, err := rand.Int(random, big.NewInt(int64(len(alphabet))))
			if err != nil {
				return "", fmt.Errorf("generate password: %w", err)
			}
			text[i] = alphabet[n.Int64()]
		}
		if fitsPolicies(string(text)) {
			return bmc.Password(text), nil
		}
	}
}

// fitsPolicies reports whether a password begins with a letter, has every class, and repeats no
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import "strings"

// purposeElement is the index of the purpose among the slash-separated elements of a token.
const purposeElement = 3

// ForStranger reports whether a token is for an unknown server. It does not verify the
// token: an agent with such a token does less than any other.
func ForStranger(token Sensitive) bool {
	elements := strings.Split(token.Reveal(), "/")
	return len(elements) > purposeElement && elements[purposeElement] == string(Discover)
}

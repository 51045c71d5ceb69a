// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import "strings"

// purposeElement is where a token says what it is for, in clear, among the elements
// that slashes part.
const purposeElement = 3

// ForStranger says whether a token is that of a server that nobody knows. It looks at
// what the token says, and trusts nothing: an agent that believes it does less than
// another.
func ForStranger(token Sensitive) bool {
	elements := strings.Split(token.Reveal(), "/")
	return len(elements) > purposeElement && elements[purposeElement] == string(Discover)
}

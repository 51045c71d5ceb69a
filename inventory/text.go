// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"unicode/utf8"
)

// truncate returns the text as valid UTF-8 of at most n characters, which is how
// an OpenAPI schema counts maxLength. What was cut shows as an ellipsis.
func truncate(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:n-1]) + "…"
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter parses the Retry-After header (RFC 9110 section 10.2.3) of a response
// received at now. It returns 0 for a missing or invalid value, and at most an hour.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}

// WithoutControls replaces control characters by spaces, in place. Some firmware sends raw
// control characters in serial numbers and log texts, which makes the JSON document
// invalid. Outside of strings they are white space.
func WithoutControls(text []byte) []byte {
	for i, b := range text {
		if b < ' ' {
			text[i] = ' '
		}
	}
	return text
}

// Shorten cuts a BMC's text to n bytes and appends an ellipsis (3 more bytes) if the text
// was longer. Call Mask first on text that may hold a secret.
func Shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ParseRetryAfter reads the header Retry-After (RFC 9110 §10.2.3) of an answer that came
// now; 0: not told, or not to be understood. No BMC may ask for more than an hour.
func ParseRetryAfter(value string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(value); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), time.Hour)
}

// WithoutControls replaces control characters by spaces, in place. Raw ones inside of a
// string make a JSON document invalid, which some firmware sends in serial numbers and log
// texts; outside of strings they are white space.
func WithoutControls(text []byte) []byte {
	for i, b := range text {
		if b < ' ' {
			text[i] = ' '
		}
	}
	return text
}

// Shorten bounds a BMC's text to n bytes, and an ellipsis of three more where it was
// longer. What may hold a secret goes through Mask first.
func Shorten(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

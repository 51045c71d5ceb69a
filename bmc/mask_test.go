// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
)

func TestMask(t *testing.T) {
	for name, written := range bmctest.CanaryEncodings() {
		t.Run(name, func(t *testing.T) {
			got := bmc.Mask("before "+written+" after "+written, bmctest.Canary)
			if want := "before *** after ***"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	for _, tc := range []struct {
		name, text, want string
		secrets          []bmc.Password
	}{
		{"no secret", "text", "text", nil},
		{"an empty secret", "text", "text", []bmc.Password{""}},
		{"only the secret", "secret", "***", []bmc.Password{"secret"}},
		{"a prefix of another secret", "is longer.", "is ***.", []bmc.Password{"long", "longer"}},
		{"overlapping secrets", "xabcdx", "x***x", []bmc.Password{"abc", "bcd"}},
		{"overlapping itself", "xaaaaax", "x***x", []bmc.Password{"aaa"}},
		{"a quote at the end", `{"p":"abc\""}`, `{"p":"***"}`, []bmc.Password{`abc"`}},
		{"invalid UTF-8", "a\xffb\xfec", "a***c", []bmc.Password{"\xffb\xfe"}},
		{"a percent sign at the end", "is 50%25.", "is ***.", []bmc.Password{"50%"}},
		{"a part of the mask", "is **.", "is ***.", []bmc.Password{"*"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := bmc.Mask(tc.text, tc.secrets...); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestQuerySecrets shows that the signature of a URL is masked where a BMC repeats it.
func TestQuerySecrets(t *testing.T) {
	for _, tc := range []struct{ name, url, text, want string }{
		{"no query", "https://store/BIOS.bin", "cannot fetch https://store/BIOS.bin", "cannot fetch https://store/BIOS.bin"},
		{"a version", "https://store/BIOS.bin?v=1", "cannot fetch https://store/BIOS.bin?v=1", "cannot fetch https://store/BIOS.bin?v=1"},
		{"a signature", "https://store/BIOS.bin?Expires=1790000000&Signature=c2lnbmF0dXJlLW9m%2FaW1hZ2U", "ImageURI https://store/BIOS.bin?Expires=1790000000&Signature=c2lnbmF0dXJlLW9m%2FaW1hZ2U is refused",
			"ImageURI https://store/BIOS.bin?*** is refused"},
		{"a repeated signature", "https://store/BIOS.bin?Expires=1790000000&Signature=c2lnbmF0dXJlLW9m%2FaW1hZ2U", "Signature c2lnbmF0dXJlLW9m/aW1hZ2U", "Signature ***"},
		{"no URL", "://", "text", "text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := bmc.Mask(tc.text, bmc.QuerySecrets(tc.url)...); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-7": 0, "999999": time.Hour, "99999999999999999999": 0, "soon": 0,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0,
	} {
		if got := bmc.ParseRetryAfter(value, now); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "abö": "ab…", strings.Repeat("ä", 9): "ä…"} {
		if got := bmc.Shorten(text, 3); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

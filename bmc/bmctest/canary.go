// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

// CanaryWord begins the Canary, however that is written but in base64.
const CanaryWord = "canary"

// Canary is the password in the tests of all drivers: no error may show it. Every way of
// writing it differs from it, and it fits IPMI with what testWrongPassword adds.
const Canary = CanaryWord + `"\&<%ö>`

// Writings are the ways in which BMCs and libraries repeat the Canary, by name.
func Writings() map[string]string {
	return map[string]string{
		"as it is":                Canary,
		"base64":                  "Y2FuYXJ5IlwmPCXDtj4=",
		"URL":                     "canary%22%5C%26%3C%25%C3%B6%3E",
		"URL with small letters":  "canary%22%5c%26%3c%25%c3%b6%3e",
		"path of a URL":           "canary%22%5C&%3C%25%C3%B6%3E",
		"HTML by numbers":         `canary&#34;\&amp;&lt;%ö&gt;`,
		"HTML by names":           `canary&quot;\&amp;&lt;%ö&gt;`,
		"quoted":                  `canary\"\\&<%ö>`,
		"JSON for a page":         `canary\"\\\u0026\u003c%ö\u003e`,
		"JSON of seven-bit bytes": `canary\"\\&<%\u00f6>`,
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmctest

// CanaryWord is the beginning of the Canary in every encoding except base64.
const CanaryWord = "canary"

// Canary is the password in the tests of all drivers. No error may show it. Every encoding of it
// differs from it, and it fits IPMI even with the suffix of testWrongPassword.
const Canary = CanaryWord + `"\&<%ö>`

// CanaryEncodings returns the encodings in which BMCs and libraries repeat the Canary, by name.
func CanaryEncodings() map[string]string {
	return map[string]string{
		"plain":                   Canary,
		"base64":                  "Y2FuYXJ5IlwmPCXDtj4=",
		"URL":                     "canary%22%5C%26%3C%25%C3%B6%3E",
		"URL in lower case":       "canary%22%5c%26%3c%25%c3%b6%3e",
		"URL path":                "canary%22%5C&%3C%25%C3%B6%3E",
		"HTML with numbers":       `canary&#34;\&amp;&lt;%ö&gt;`,
		"HTML with names":         `canary&quot;\&amp;&lt;%ö&gt;`,
		"quoted":                  `canary\"\\&<%ö>`,
		"JSON with HTML escaping": `canary\"\\\u0026\u003c%ö\u003e`,
		"JSON in ASCII":           `canary\"\\&<%\u00f6>`,
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// masked replaces a secret.
const masked = "***"

// minQuerySecret is the shortest query of a URL, or value in it, that may grant access, in bytes.
const minQuerySecret = 8

// QuerySecrets returns the secret parts of an image URL: its query, which may be a
// signature, and the values that a BMC may repeat from it. Nil: there are none.
func QuerySecrets(image string) []Password {
	parsed, err := url.Parse(image)
	if err != nil || len(parsed.RawQuery) < minQuerySecret {
		return nil
	}
	secrets := []Password{Password(parsed.RawQuery)}
	for _, values := range parsed.Query() {
		for _, value := range values {
			if len(value) >= minQuerySecret {
				secrets = append(secrets, Password(value))
			}
		}
	}
	return secrets
}

// Mask replaces every secret in text by "***", in all encodings that BMCs and libraries
// use: plain, base64, escaped for a URL, for HTML, XML or JSON, and quoted as in Go (I18).
// It ignores empty secrets.
//
// Call Mask before the text is cut, because it does not find half a secret.
func Mask(text string, secrets ...Password) string {
	hidden := make([]bool, len(text))
	for _, secret := range secrets {
		for _, form := range secret.encodings() {
			for at := 0; ; at++ {
				next := strings.Index(text[at:], form)
				if next < 0 {
					break
				}
				at += next
				for i := range len(form) {
					hidden[at+i] = true
				}
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !hidden[i]:
			out.WriteByte(text[i])
		case i == 0 || !hidden[i-1]:
			out.WriteString(masked)
		}
	}
	return out.String()
}

// encodings returns the ways to write a secret; none for the empty one.
func (p Password) encodings() []string {
	secret := p.Reveal()
	if secret == "" {
		return nil
	}
	query, path, marked := url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret)
	encodings := []string{
		secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
		query, path, lowerEscapes(query), lowerEscapes(path),
		marked, strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(marked),
		unquoted(strconv.Quote(secret)), unquoted(strconv.QuoteToASCII(secret)),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		encodings = append(encodings, unquoted(string(quoted)))
	}
	return encodings
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }

var percentEscape = regexp.MustCompile(`%..`)

// lowerEscapes turns %3C into %3c.
func lowerEscapes(escaped string) string {
	return percentEscape.ReplaceAllStringFunc(escaped, strings.ToLower)
}

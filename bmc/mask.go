// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
)

// masked stands where a secret was.
const masked = "***"

// leastSignature is how long the query of a URL, or a value in it, is at least that may
// let somebody in, in bytes.
const leastSignature = 8

// QuerySecrets are the parts of the URL of an image that are for those who fetch it: the query,
// which may be a signature, and what a BMC may repeat of it. Nil: it has none.
func QuerySecrets(image string) []Password {
	parsed, err := url.Parse(image)
	if err != nil || len(parsed.RawQuery) < leastSignature {
		return nil
	}
	secrets := []Password{Password(parsed.RawQuery)}
	for _, values := range parsed.Query() {
		for _, value := range values {
			if len(value) >= leastSignature {
				secrets = append(secrets, Password(value))
			}
		}
	}
	return secrets
}

// Mask returns text with "***" in the place of every secret, in all the ways in which BMCs
// and libraries write what they were sent: as it is, in base64, escaped for a URL, for HTML
// or XML, for JSON, or quoted as Go does (I18). Empty secrets are none.
//
// It is to be called before the text is cut: half a secret is not found any more.
func Mask(text string, secrets ...Password) string {
	hidden := make([]bool, len(text))
	for _, secret := range secrets {
		for _, form := range secret.forms() {
			for at := strings.Index(text, form); at >= 0; {
				for i := range len(form) {
					hidden[at+i] = true
				}
				next := strings.Index(text[at+1:], form)
				if next < 0 {
					break
				}
				at += 1 + next
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

// forms are the ways to write a secret; none of the empty one.
func (p Password) forms() []string {
	secret := p.Reveal()
	if secret == "" {
		return nil
	}
	query, path, marked := url.QueryEscape(secret), url.PathEscape(secret), html.EscapeString(secret)
	forms := []string{
		secret, base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)),
		query, path, lowerEscapes(query), lowerEscapes(path),
		marked, strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;").Replace(marked),
		unquoted(strconv.Quote(secret)), unquoted(strconv.QuoteToASCII(secret)),
	}
	if quoted, err := json.Marshal(secret); err == nil {
		forms = append(forms, unquoted(string(quoted)))
	}
	return forms
}

func unquoted(quoted string) string { return quoted[1 : len(quoted)-1] }

// lowerEscapes turns %3C into %3c.
func lowerEscapes(escaped string) string {
	out := []byte(escaped)
	for i := 0; i+2 < len(out); i++ {
		if out[i] == '%' {
			copy(out[i+1:], strings.ToLower(escaped[i+1:i+3]))
			i += 2
		}
	}
	return string(out)
}

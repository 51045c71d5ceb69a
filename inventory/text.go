// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// maxHosts bounds how many hosts one message names.
const maxHosts = 3

// ListHosts names other hosts to whoever reads the objects of a namespace: those of the
// same namespace by name; of those in others, which may be other tenants', it tells
// only that there are some. The same hosts give the same text, in whatever order they
// come and however often. Of none it says nothing.
func ListHosts(namespace string, hosts []types.NamespacedName) string {
	var own, foreign []string
	for _, host := range hosts {
		if host.Namespace == namespace {
			own = append(own, host.String())
		} else {
			foreign = append(foreign, host.String())
		}
	}
	slices.Sort(own)
	slices.Sort(foreign)
	own, foreign = slices.Compact(own), slices.Compact(foreign)
	var parts []string
	if more := len(own) - maxHosts; more > 0 {
		parts = append(parts, fmt.Sprintf("IngotHost %s and %d more", strings.Join(own[:maxHosts], ", "), more))
	} else if len(own) > 0 {
		parts = append(parts, "IngotHost "+strings.Join(own, ", "))
	}
	switch {
	case len(foreign) == 1:
		parts = append(parts, "a host of another namespace")
	case len(foreign) > 1:
		parts = append(parts, "hosts of other namespaces")
	}
	return strings.Join(parts, " and ")
}

// Truncate returns the text as valid UTF-8 of at most n characters, which is how
// an OpenAPI schema counts maxLength. What was cut shows as an ellipsis.
func Truncate(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:n-1]) + "…"
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxNamed bounds how many hosts, or clusters, one message names.
const maxNamed = 3

// ListHosts names other hosts to whoever reads the objects of a namespace: those of the
// same namespace by name; of those in others, which may be other tenants', it tells
// only that there are some. The same hosts give the same text, in whatever order they
// come and however often. Of none it says nothing.
func ListHosts(namespace string, hosts []types.NamespacedName) string {
	return listOthers(namespace, hosts, "IngotHost", "a host of another namespace", "hosts of other namespaces")
}

// ListClusters does the same with IngotClusters.
func ListClusters(namespace string, clusters []types.NamespacedName) string {
	return listOthers(namespace, clusters, "IngotCluster", "a cluster of another namespace", "clusters of other namespaces")
}

// listOthers says kind before names, and one or several of those that are not named.
func listOthers(namespace string, objects []types.NamespacedName, kind, one, several string) string {
	var own, foreign []string
	for _, object := range objects {
		if object.Namespace == namespace {
			own = append(own, object.String())
		} else {
			foreign = append(foreign, object.String())
		}
	}
	slices.Sort(own)
	slices.Sort(foreign)
	own, foreign = slices.Compact(own), slices.Compact(foreign)
	var parts []string
	if more := len(own) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%s %s and %d more", kind, strings.Join(own[:maxNamed], ", "), more))
	} else if len(own) > 0 {
		parts = append(parts, kind+" "+strings.Join(own, ", "))
	}
	switch {
	case len(foreign) == 1:
		parts = append(parts, one)
	case len(foreign) > 1:
		parts = append(parts, several)
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

// TruncateBytes returns the text as valid UTF-8 of at most n bytes, which is how the API
// server counts the note of an Event. What was cut shows as an ellipsis.
func TruncateBytes(text string, n int) string {
	const ellipsis = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	end := n - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// listSome joins at most n of the words, for people.
func ListSome(words []string, n int) string {
	switch {
	case len(words) == 0:
		return "none"
	case len(words) <= n:
		return strings.Join(words, ", ")
	default:
		return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
	}
}

// clock returns a time as RFC 3339 in UTC, as messages show times.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// maxMessage is how many characters the schema allows a message in the spec of a host.
const maxMessage = 1024

// clip cuts a message to what the schema allows in the spec of a host.
func ClipMessage(message string) string { return Truncate(message, maxMessage) }

// is returns a condition with status True.
func TrueCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// isNot returns a condition with status False.
func FalseCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// unknown returns a condition with status Unknown.
func UnknownCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

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

// maxNamed is how many hosts or clusters a message names.
const maxNamed = 3

// ListHosts lists hosts for readers of a namespace. It names the hosts of the same namespace, and
// only mentions those of other namespaces, which may be of other tenants. Order and duplicates do
// not matter. Without hosts the text is empty.
func ListHosts(namespace string, hosts []types.NamespacedName) string {
	return listOthers(namespace, hosts, "IngotHost", "a host of another namespace", "hosts of other namespaces")
}

// ListClusters is ListHosts for IngotClusters.
func ListClusters(namespace string, clusters []types.NamespacedName) string {
	return listOthers(namespace, clusters, "IngotCluster", "a cluster of another namespace", "clusters of other namespaces")
}

// listOthers puts kind before names, and adds one or several for the objects without names.
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

// Truncate returns the text as valid UTF-8 of at most n characters, as an OpenAPI schema counts
// maxLength. A shortened text ends with an ellipsis.
func Truncate(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	runes := []rune(text)
	return string(runes[:n-1]) + "…"
}

// TruncateBytes returns the text as valid UTF-8 of at most n bytes, as the API server counts the
// note of an Event. A shortened text ends with an ellipsis.
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

// MaxText is the maximum length, in characters, of a message in a condition or an event.
const MaxText = 200

// minDetail is how many characters WithDetail keeps of a detail that does not fit.
const minDetail = 16

// WithDetail returns before, detail and after as one message. It shortens only detail, in the
// middle, to keep the message within MaxText: the end of an error is its cause. It drops a period
// at the end of detail.
func WithDetail(before, detail, after string) string {
	detail = strings.TrimRight(strings.Join(strings.Fields(strings.ToValidUTF8(detail, "\uFFFD")), " "), ".")
	room := max(MaxText-utf8.RuneCountInString(before+after), minDetail)
	if runes := []rune(detail); len(runes) > room {
		head := room * 2 / 3
		detail = string(runes[:head]) + "…" + string(runes[len(runes)-(room-head-1):])
	}
	if strings.HasSuffix(detail, "?") {
		after = strings.TrimPrefix(after, ".")
	}
	return before + detail + after
}

// ListSome joins at most n of the words by commas, and counts the rest.
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

// FormatTime returns a time as RFC 3339 in UTC, for messages.
func FormatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// maxMessage is the limit of the schema for a message in the spec of a host, in characters.
const maxMessage = 1024

// ClipMessage shortens a message to the limit of the schema in the spec of a host.
func ClipMessage(message string) string { return Truncate(message, maxMessage) }

// TrueCondition returns a condition with status True.
func TrueCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// FalseCondition returns a condition with status False.
func FalseCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// UnknownCondition returns a condition with status Unknown.
func UnknownCondition(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}

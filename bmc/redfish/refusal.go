// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// message is one entry of @Message.ExtendedInfo (DSP0266, error responses).
type message struct {
	id, text   string
	args       []string
	properties []string
}

// name returns the last part of the ID: PropertyMissing of "Base.1.16.PropertyMissing".
func (m message) name() string {
	_, name, _ := cutLast(m.id, ".")
	return name
}

// mapped returns the message with change applied to all its texts.
func (m message) mapped(change func(string) string) message {
	m.id, m.text = change(m.id), change(m.text)
	for _, all := range [][]string{m.args, m.properties} {
		for i := range all {
			all[i] = change(all[i])
		}
	}
	return m
}

// String returns the readable message: its text or, without one, its arguments.
func (m message) String() string {
	if m.text == "" && len(m.args) > 0 {
		return m.id + " (" + strings.Join(m.args, ", ") + ")"
	}
	return strings.Trim(m.id+": "+m.text, ": ")
}

// parseRefusal reads the body of an error answer. Like decode it is lenient: BMCs send one
// object instead of a list of messages, numbers as arguments, and the list outside of "error".
// general is the text of the whole answer, or a body that is not JSON.
func parseRefusal(body []byte) (messages []message, general string) {
	var document any
	if json.Unmarshal(body, &document) != nil {
		return nil, string(body)
	}
	problem := member(document, "error")
	for _, holder := range []any{problem, document} {
		for _, entry := range list(member(holder, "@Message.ExtendedInfo")) {
			m := message{
				id: text(member(entry, "MessageId")), text: text(member(entry, "Message")),
				args: texts(member(entry, "MessageArgs")), properties: texts(member(entry, "RelatedProperties")),
			}
			if m.id != "" || m.text != "" {
				messages = append(messages, m)
			}
		}
	}
	general = cmp.Or(text(member(problem, "message")), text(problem))
	if code := text(member(problem, "code")); len(messages) == 0 && code != "" {
		messages = []message{{id: code}}
	}
	return messages, general
}

// shownRefusal returns the readable part of a refusal. The general text of an answer that has
// messages only refers to them.
func shownRefusal(messages []message, general string) string {
	var parts []string
	for _, m := range messages {
		parts = append(parts, m.String())
	}
	hasText := slices.ContainsFunc(messages, func(m message) bool { return m.text != "" })
	if general != "" && !hasText && !strings.Contains(general, "ExtendedInfo") {
		parts = append(parts, general)
	}
	return strings.Join(parts, "; ")
}

// member returns the value of a JSON object by its name, in any case; nil if there is none.
func member(v any, name string) any {
	object, _ := v.(map[string]any)
	if found, ok := object[name]; ok {
		return found
	}
	for key, found := range object {
		if strings.EqualFold(key, name) {
			return found
		}
	}
	return nil
}

// list returns a JSON value as a list; a single value is a list of one.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// texts returns the paths of the strings of a document.
func texts(v any) []string {
	var out []string
	for _, entry := range list(v) {
		if s := text(entry); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// text returns a JSON string, number or boolean as text, and "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64, bool:
		return fmt.Sprint(v)
	}
	return ""
}

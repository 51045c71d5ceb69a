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

// name is the last part of the ID: "Base.1.16.PropertyMissing" is "PropertyMissing".
func (m message) name() string {
	_, name, _ := cutLast(m.id, ".")
	return name
}

// mapped is the message with all its texts changed.
func (m message) mapped(change func(string) string) message {
	m.id, m.text = change(m.id), change(m.text)
	for _, all := range [][]string{m.args, m.properties} {
		for i := range all {
			all[i] = change(all[i])
		}
	}
	return m
}

// String is the message for people: its text, or its arguments where it has no text.
func (m message) String() string {
	if m.text == "" && len(m.args) > 0 {
		return m.id + " (" + strings.Join(m.args, ", ") + ")"
	}
	return strings.Trim(m.id+": "+m.text, ": ")
}

// parseRefusal reads the body of an error answer. It is as lenient as decode: services send
// one object instead of a list of messages, numbers among the arguments, and the list
// outside of "error". general is the text of the answer as a whole; a body that is no JSON
// is such a text.
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

// shownRefusal is what people read of a refusal. The general text of an answer with
// messages of its own only points to them.
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

// member is a value of a JSON object by its name in any case; nil where there is none.
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

// list is a JSON value as a list: that of a single value has one entry.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// texts are the entries of a list that are texts or numbers.
func texts(v any) []string {
	var out []string
	for _, entry := range list(v) {
		if s := text(entry); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// text is a JSON text, number or boolean as text; empty for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64, bool:
		return fmt.Sprint(v)
	}
	return ""
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
)

// TestParseRefusal checks what is read from error answers that deviate from DSP0266.
func TestParseRefusal(t *testing.T) {
	for name, tc := range map[string]struct {
		body  string
		names string
		shown string
	}{
		"as DSP0266 has it": {
			`{"error":{"code":"Base.1.8.GeneralError","message":"See ExtendedInfo.","@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyMissing","Message":"It is missing.","MessageArgs":["A"]}]}}`,
			"PropertyMissing", "Base.1.8.PropertyMissing: It is missing.",
		},
		"one object instead of a list": {
			`{"error":{"code":"X","message":"m","@Message.ExtendedInfo":{"MessageId":"Base.1.8.PropertyMissing","Message":"It is missing."}}}`,
			"PropertyMissing", "Base.1.8.PropertyMissing: It is missing.",
		},
		"a number and null among the arguments": {
			`{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyValueOutOfRange","MessageArgs":[7,null,"Delay",true]}]}}`,
			"PropertyValueOutOfRange", "Base.1.8.PropertyValueOutOfRange (7, Delay, true)",
		},
		"one text as the arguments": {
			`{"error":{"@Message.ExtendedInfo":[{"MessageId":"A.1.B","MessageArgs":"Delay"}]}}`, "B", "A.1.B (Delay)",
		},
		"IDs only, and general text": {
			`{"error":{"code":"X","message":"The drive is locked by job 7.","@Message.ExtendedInfo":[{"MessageId":"A.1.B"},{"MessageId":"A.1.C"}]}}`,
			"B C", "A.1.B; A.1.C; The drive is locked by job 7.",
		},
		"IDs only, and a text that points to them": {
			`{"error":{"code":"X","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"MessageId":"A.1.B"}]}}`, "B", "A.1.B",
		},
		"messages outside of error": {`{"@Message.ExtendedInfo":[{"MessageId":"A.1.B","Message":"No."}]}`, "B", "A.1.B: No."},
		"a code alone":              {`{"error":{"code":"A.1.B","message":"No."}}`, "B", "A.1.B; No."},
		"names in another case":     {`{"error":{"@Message.ExtendedInfo":[{"MessageID":"A.1.B","message":"No."}]}}`, "B", "A.1.B: No."},
		"entries without a meaning": {`{"error":{"@Message.ExtendedInfo":[1,"x",null,[],{"MessageId":"A.1.B"}]}}`, "B", "A.1.B"},
		"error is a text":           {`{"error":"No."}`, "", "No."},
		"no JSON":                   {"<html>No.</html>", "", "<html>No.</html>"},
		"nothing":                   {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			messages, general := parseRefusal([]byte(tc.body))
			var names []string
			for _, m := range messages {
				names = append(names, m.name())
			}
			if diff := cmp.Diff(tc.names, strings.Join(names, " ")); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.shown, shownRefusal(messages, general)); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownOutcomeShowsAnswer checks that the error of a write that got 500 contains the answer.
func TestUnknownOutcomeShowsAnswer(t *testing.T) {
	c := &conn{transport: &transport{last: exchange{status: 500}}}
	c.transport.last.refusal.WriteString(`{"error":{"code":"X","message":"Internal failure 7."}}`)
	err := c.failure(write, "post /a", errors.New("500"))
	if !errors.Is(err, bmc.ErrUnknownOutcome) || strings.Contains(err.Error(), "did not answer") || !strings.Contains(err.Error(), "Internal failure 7.") {
		t.Errorf("error %v", err)
	}
}

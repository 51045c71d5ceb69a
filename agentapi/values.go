// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration written as text ("2s") in JSON.
type Duration time.Duration

// MarshalJSON writes the duration as time.Duration.String does.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads what time.ParseDuration reads.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: %w", s, err)
	}
	*d = Duration(parsed)
	return nil
}

// Sensitive is text that no log, error or debug print may show. It marshals to
// JSON as it is and prints as "***".
type Sensitive string

// String hides the text.
func (s Sensitive) String() string { return "***" }

// GoString hides the text from %#v.
func (s Sensitive) GoString() string { return "***" }

// Format hides the text from every other verb.
func (s Sensitive) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }

// Reveal returns the text, for the one place that may use it.
func (s Sensitive) Reveal() string { return string(s) }

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
		return fmt.Errorf("parse duration %q: %w", s, err)
	}
	*d = Duration(parsed)
	return nil
}

// Sensitive is secret text. It marshals to JSON unchanged and prints as "***".
type Sensitive string

func (s Sensitive) String() string { return "***" }

func (s Sensitive) GoString() string { return "***" }

func (s Sensitive) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("***")) }

func (s Sensitive) Reveal() string { return string(s) }

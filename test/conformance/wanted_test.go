// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import "fmt"

// wanted are the identifiers that the project gave to the rules of its documents,
// and those of the rules that we numbered on.
func wanted() []string {
	ids := []string{"M15b", "K44b", "C05b"}
	for _, document := range []struct {
		letter string
		last   int
	}{{"M", 65}, {"R", 35}, {"L", 12}, {"K", 54}, {"C", 34}} {
		for n := range document.last {
			ids = append(ids, fmt.Sprintf("%s%02d", document.letter, n+1))
		}
	}
	return ids
}

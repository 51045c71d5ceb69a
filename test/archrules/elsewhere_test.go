// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"regexp"
	"testing"
)

// papersElsewhere are papers of those who wrote the tree, which are not in it.
var papersElsewhere = regexp.MustCompile(`\b(?:names|lab|style|design)\.md\b|\bdesign (?:§|I[0-9])|\bcontract\.md §`)

// No comment leans on a paper that is not in the repository.
func TestCommentsLeanOnNothingElsewhere(t *testing.T) {
	comments(t, func(at, text string) {
		if found := papersElsewhere.FindString(text); found != "" {
			t.Errorf("%s: %q is not in the repository; say what it says, or name an invariant or a page of docs", at, found)
		}
	})
}

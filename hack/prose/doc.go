// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package prose checks the language of the book and of comments: short sentences, the words of the
// glossary, and American spelling. Only its tests have code.
//
// The file exceptions.txt lists accepted findings, one for each line: the path, the word or the
// beginning of the sentence, and the reason, separated by " | ". A test fails for an exception
// without a reason, or without a finding, and for more than 50 of them.
package prose

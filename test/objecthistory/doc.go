// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objecthistory keeps every version of every object of some kinds, as the API
// server wrote them, so that a test can look at what was true at any moment. It
// judges nothing.
//
//	h, err := objecthistory.Record(ctx, client, objecthistory.Options{Namespace: "default", Kinds: []client.ObjectList{&infrav1.IngotHostList{}}})
//	…
//	err = h.Settle(ctx)
//	versions, err := h.Versions()
package objecthistory

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image checks whether images can be fetched. It sends a HEAD request to the URL of every
// IngotImage when it changes and about every hour, and shows the result as condition Reachable.
//
// Nothing depends on the result: boot servers fetch an image when a server needs it, and verify its
// checksum. The HTTP client must connect only to sources that the operator allows
// (httpd.NewClient), since the author of an IngotImage chooses the URL.
//
//	err := (&image.Reconciler{Client: mgr.GetClient(), HTTP: client, Recorder: recorder, Clock: clock.RealClock{}}).SetupWithManager(mgr, options)
package image

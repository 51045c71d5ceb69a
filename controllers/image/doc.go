// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image looks whether the images of the catalogue can be fetched: it asks the
// URL of every IngotImage for its head, when it changes and about every hour, and shows
// the answer as the condition Reachable.
//
// Nothing depends on the answer: the boot servers fetch an image from where they are,
// when a server needs it, and the checksum decides. The client that is given must be one
// that connects only to sources which the operator allows (httpd.NewClient): the author
// of an IngotImage chooses the URL.
//
//	err := (&image.Reconciler{Client: mgr.GetClient(), HTTP: client, Recorder: recorder, Clock: clock.RealClock{}}).SetupWithManager(mgr, options)
package image

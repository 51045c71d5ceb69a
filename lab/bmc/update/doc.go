// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package update is the update service of an emulated BMC: firmware inventory, SimpleUpdate, by which the
// BMC fetches an image, multipart push, and push of a plain image. Pushed images are read as streams and
// not stored. New firmware of the server is active after its next boot, that of the BMC after its restart.
//
// Only the first line of an image matters (Image). Other images are refused, as real BMCs refuse unsigned
// ones.
//
//	s := update.New(update.Config{Personality: p, Tasks: tasks, Client: http.DefaultClient})
//	body := io.MultiReader(bytes.NewReader(update.Image("BIOS", "3.0")), rest)
package update

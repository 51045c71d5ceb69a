// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package update is an emulated BMC's update service: firmware inventory,
// SimpleUpdate, by which the BMC fetches an image, and multipart push and the push of an image
// alone, which are read as streams and never kept. New firmware of the server takes effect with
// its next boot, that of the BMC with the BMC's own restart.
//
// It must not know the machine, nor what is in an image beyond its first line
// (Image): other images are refused, as real BMCs refuse unsigned ones.
//
//	s := update.New(update.Config{Personality: p, Tasks: tasks, Client: http.DefaultClient})
//	body := io.MultiReader(bytes.NewReader(update.Image("BIOS", "3.0")), rest)
package update

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package capture reads from the capture of a boot what no single packet says: how much of
// the time was the client's own, and how much its servers'.
//
// It knows packets, and not who sent them: it never imports pxe.
//
//	var file bytes.Buffer
//	err := sw.Capture(&file) // sw is a *network.Switch
//	// … a server boots …
//	sw.StopCapture()
//	frames, err := network.ReadCapture(&file)
//	firmware := capture.ClientTime(frames, mac, kernelStarted)
package capture

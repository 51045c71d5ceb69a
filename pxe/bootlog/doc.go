// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootlog combines the events of the boot server into boots: which host started
// when, when it reached each stage, and where it stopped. It measures the stages and
// delivers each boot once, when the boot is over.
//
// Its memory is bounded. It must not know who stores the boots, and a boot has no secrets.
//
//	tracker := bootlog.New(bootlog.Options{Deliver: keep})
//	srv, err := bootserver.New(bootserver.Config{Observer: tracker, …})
//	err = tracker.Run(ctx)
package bootlog

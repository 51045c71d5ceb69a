// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bootlog puts the events of the boot server together to boots: which host
// began when, which stages it has passed and when, and where it stopped. It measures
// the stages, and hands boots over when they are over: one that boots from the network
// is one boot, whatever packets it took.
//
// What it remembers is bounded. It must not know who keeps the boots, and nothing in a
// boot is a secret.
//
//	tracker := bootlog.New(bootlog.Options{Deliver: keep})
//	srv, err := bootserver.New(bootserver.Config{Observer: tracker, …})
//	err = tracker.Run(ctx)
package bootlog

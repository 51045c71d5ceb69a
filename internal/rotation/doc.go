// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotation gives a host's BMC a new password that only Ingot knows, when an operator asks
// for it by annotation. NextRotation decides each step. The package stores the new password before
// it sends it to the BMC, and trusts only a successful login. Wherever a process ends, the Secret
// holds the password of the BMC.
//
// Package host decides when the BMC may be called, makes the calls, counts failures and keeps the
// Memory.
//
//	rotator := &rotation.Rotator{Client: c, Clock: clock, BMC: bmc, Current: current, Save: save, ...}
//	outcome, err := rotator.Rotate(ctx, rotation.View{Host: host, Secret: secret, Target: &target, Seen: &seen, Memory: &memory})
//	if !outcome.Settled { ... } // the BMC failed, which was recorded, or more steps are needed
package rotation

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rotation gives the BMC of a host a new password, which nobody but Ingot knows,
// when a person asks for that by annotation. inventory decides each step; this package
// writes the new password down before the BMC hears of it, sends it, and believes no more
// than a login proves: whatever dies in the middle, the Secret holds the password that the
// BMC has (docs/decisions/0121).
//
// It must not know how a BMC is polled, nor how a host lives: package host says when the
// BMC may be asked, makes the calls, counts failures and keeps the Memory.
//
//	rotator := &rotation.Rotator{Client: c, Clock: clock, BMC: dealings, Current: current, Save: save, ...}
//	outcome, err := rotator.Rotate(ctx, rotation.View{Host: host, Secret: secret, Target: &target, Seen: &seen, Memory: &memory})
//	if !outcome.Settled { ... } // the BMC failed, which was noted, or more is to be done
package rotation

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait lets time pass for the agent. It is one package so that tests replace one
// thing: whoever waits has a field of the type of For, and takes For where it is nil. It
// knows nothing of what is waited for.
//
//	if err := wait.For(ctx, time.Second); err != nil {
//		return err // called off
//	}
package wait

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait lets time pass for the agent. It is one package so that tests replace one
// thing: whoever waits has a field of the type of For, and takes For where it is nil. It
// knows nothing of what is waited for. What comes by itself and tells nobody, such as a
// device, is asked for by a Poll.
//
//	if err := wait.For(ctx, time.Second); err != nil {
//		return err // called off
//	}
//	err := wait.Poll{Every: time.Second, Limit: time.Minute}.Until(ctx, isThere)
package wait

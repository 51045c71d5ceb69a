// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wait sleeps and polls with a context. Types that wait have a field of the type of
// For, so that tests can replace it; nil means For.
//
//	if err := wait.For(ctx, time.Second); err != nil {
//		return err // canceled
//	}
//	err := wait.Poll{Every: time.Second, Limit: time.Minute}.Until(ctx, isThere)
package wait

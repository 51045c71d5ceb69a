// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package eventually is how tests wait for what has to come about. They ask again and
// again what is still missing, which is what they fail with in the end. It knows
// nothing of Ingot: what is looked at, and whether to go on, its callers say.
//
//	eventually.Wait{Broken: plane.Err}.Until(t, "free hosts", func(ctx context.Context) (string, error) {
//		…
//		return "r1-s1 is Provisioning", nil
//	})
//	eventually.Wait{}.Until(t, "a boot from the disk", eventually.Holds(func() bool { return boots() > 0 }))
//
// Limits are far above what a loaded machine needs: only a test that fails takes
// them. Tests that step a clock, or that pause for others to do something, have
// loops of their own.
package eventually

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc drives the management controller of one server of any vendor through
// interfaces that are sized by capability. It does not know Kubernetes or the lifecycle of
// a host: callers request an action, and the package reports the result.
//
// A Pool keeps at most one session and one call in flight per BMC, closes the sessions that it
// opened, and gives every call a deadline. Drivers live below this package. No type of their
// libraries crosses the package boundary, and Mask hides secrets that a BMC repeats.
//
// Watches keep an event stream open on the Pool's session, so that the BMC has to be
// polled less often. Sessions carry a Mark, by which a later process recognizes the
// sessions that a killed process left open.
//
//	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
//	err := pool.Do(ctx, target, func(ctx context.Context, c bmc.Conn) error {
//		state, err := c.PowerState(ctx)
//		...
//	})
package bmc

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bmc drives the management controller of one server, whatever its
// maker, through interfaces sized by capability. It knows nothing of Kubernetes
// or of a host's life: it is told what to do and says what came of it.
//
// Watches keep a stream of what a BMC tells by itself, on the Pool's session, so that
// it is asked the less (docs/decisions/0126). What a process that was killed left open
// is known by its Mark (0127).
//
// A Pool keeps at most one session and one call in flight per BMC, closes what
// it opened, and gives every call a deadline. The drivers live below this
// package; no type of their libraries crosses it, and no secret that a BMC repeats (Mask).
//
//	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
//	err := pool.Do(ctx, target, func(ctx context.Context, c bmc.Conn) error {
//		state, err := c.PowerState(ctx)
//		...
//	})
package bmc

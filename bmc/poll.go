// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import "context"

// Vitals are what is asked of a server at every poll.
type Vitals struct {
	Power PowerState
	// Health is the BMC's own sum; HealthUnknown where it does not tell.
	Health HealthState
}

// Pulse reads the vitals, in one request where the protocol allows: a host at rest
// costs its BMC no more than that.
type Pulse interface {
	// Vitals answers ErrNotSupported where a driver knows no such request; a Pool then
	// asks for the power state alone.
	Vitals(ctx context.Context) (Vitals, error)
}

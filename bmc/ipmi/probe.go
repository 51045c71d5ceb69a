// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// probeTries means waits of 1, 2 and 4 seconds.
const probeTries = 3

// Probe implements bmc.Driver with Get Channel Authentication Capabilities, which starts every
// session and requires none (§13.14, §22.13). It sends no user name.
func Probe(ctx context.Context, target bmc.Target) error {
	host, err := parseAddress(target.Address)
	if err != nil {
		return fmt.Errorf("probe for IPMI: %w", err)
	}
	w, err := openWire(ctx, target, host)
	if err != nil {
		return setupError("resolve "+host, nil, err)
	}
	defer w.close()
	s := &session{wire: w}
	if err := s.capabilities(ctx, plan{tries: probeTries}); err != nil {
		return setupError("probe "+host+" for IPMI v2.0", w, err)
	}
	return nil
}

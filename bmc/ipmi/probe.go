// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// probeTries are 1, 2 and 4 seconds of waiting for an answer.
const probeTries = 3

// Probe implements bmc.Driver: Get Channel Authentication Capabilities, which every
// session begins with and which needs none (§13.14, §22.13). No user name is sent.
func Probe(ctx context.Context, target bmc.Target) error {
	host, err := parseAddress(target.Address)
	if err != nil {
		return fmt.Errorf("look for IPMI: %w", err)
	}
	w, err := openWire(ctx, target, host)
	if err != nil {
		return setupError("look up "+host, nil, err)
	}
	defer w.close()
	s := &session{wire: w}
	if err := s.capabilities(ctx, plan{tries: probeTries}); err != nil {
		return setupError("ask "+host+" for IPMI v2.0", w, err)
	}
	return nil
}

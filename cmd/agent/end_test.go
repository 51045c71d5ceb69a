// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"

	"github.com/ingot-metal/ingot/agent/boot"
	"github.com/ingot-metal/ingot/agentapi"
)

// A refused end leaves the links down: the next attempt must configure the NIC again.
func TestNICIsDroppedAfterARefusedEnd(t *testing.T) {
	refused := errors.New("operation not permitted")
	m := &machine{nic: &boot.NIC{}, halt: func(agentapi.Action) error { return refused }}
	keeping, stop := context.WithCancel(t.Context())
	m.stopNIC = stop
	if m.forgetNetwork(); m.nic == nil || keeping.Err() != nil {
		t.Fatal("dropped a working NIC")
	}
	ended := make(chan error)
	go func() { ended <- m.end(agentapi.Restart) }() // like the timer of limitDiscovery
	if err := <-ended; !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	if m.forgetNetwork(); m.nic != nil || keeping.Err() == nil {
		t.Error("kept a NIC whose link is down, or its lease renewal")
	}
	m.nic = &boot.NIC{}
	if m.forgetNetwork(); m.nic == nil {
		t.Error("dropped a NIC that was configured again")
	}
}

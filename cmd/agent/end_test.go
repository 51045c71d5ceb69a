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

// A kernel that refuses to end the boot leaves the links down: the NIC is let go of before
// the next attempt, whoever asked for the end, and only then.
func TestEndThatIsRefused(t *testing.T) {
	refused := errors.New("operation not permitted")
	m := &machine{nic: &boot.NIC{}, halt: func(agentapi.Action) error { return refused }}
	keeping, letGo := context.WithCancel(t.Context())
	m.letGo = letGo
	if m.forgetNetwork(); m.nic == nil || keeping.Err() != nil {
		t.Fatal("let go of a NIC that works")
	}
	ended := make(chan error)
	go func() { ended <- m.end(agentapi.Restart) }() // as the timer of leaveInTime does
	if err := <-ended; !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	if m.forgetNetwork(); m.nic != nil || keeping.Err() == nil {
		t.Error("a NIC whose link is down is kept, or its lease is renewed for ever")
	}
	m.nic = &boot.NIC{}
	if m.forgetNetwork(); m.nic == nil {
		t.Error("let go of the NIC that was made anew")
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// failsLastWrite is a disk that executes the last write of an install but reports an error.
type failsLastWrite struct{ block.Device }

func (d failsLastWrite) WriteAt(b []byte, off int64) (int, error) {
	n, err := d.Device.WriteAt(b, off)
	if off == agentapi.MarkerOffset && bytes.Contains(b, []byte(`"complete":true`)) {
		err = syscall.EIO
	}
	return n, err
}

// If the order no longer holds when the agent requests the data, the disk may have another
// owner.
func TestNothingIsWrittenAfterAFinalRefusal(t *testing.T) {
	m, _ := installOrder(t)
	s := newServer(t, twoDisks...)
	m.Faults = func(path string, _ int) *agenttest.Fault {
		if path != agentapi.PathBootstrap {
			return nil
		}
		return &agenttest.Fault{Refuse: &agentapi.Error{Reason: agentapi.ReasonOrderGone}}
	}
	if action, err := s.run(m); action != agentapi.PowerOff || !errors.Is(err, agent.ErrRefused) {
		t.Fatalf("%s, %v", action, err)
	}
	if block.IsZero(s.content(0)[:agentapi.MarkerOffset]) {
		t.Error("the disk was written without an order")
	}
}

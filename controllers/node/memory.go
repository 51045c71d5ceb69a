// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxRestores is how often in a row a label is restored at once after another client changed it.
const maxRestores = 3

// memory is the state of machines between reconciles. A restart may repeat an event, or restore a
// label once more. The zero value is ready to use and safe for concurrent use.
type memory struct {
	mu       sync.Mutex
	machines map[client.ObjectKey]*machineState
}

type machineState struct {
	// recorded has the last message of each event reason.
	recorded map[string]string
	disputes map[string]dispute
}

// dispute is about a label that Ingot wrote: value, time of the last write, and how often in a row
// another client changed it.
type dispute struct {
	value string
	wrote time.Time
	lost  int
}

func (m *memory) of(machine client.ObjectKey) *machineState {
	if m.machines == nil {
		m.machines = map[client.ObjectKey]*machineState{}
	}
	if m.machines[machine] == nil {
		m.machines[machine] = &machineState{recorded: map[string]string{}, disputes: map[string]dispute{}}
	}
	return m.machines[machine]
}

func (m *memory) forget(machine client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.machines, machine)
}

// isNew stores the message and reports whether it differs from the last one of the reason.
func (m *memory) isNew(machine client.ObjectKey, reason, message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.of(machine)
	if state.recorded[reason] == message {
		return false
	}
	state.recorded[reason] = message
	return true
}

// disputedFor returns how long Ingot leaves the label to another client: after maxRestores it waits
// for the pause between two writes.
func (m *memory) disputedFor(machine client.ObjectKey, label, value string, now time.Time, pause time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, known := m.of(machine).disputes[label]
	if !known || d.value != value || d.lost < maxRestores {
		return 0
	}
	return max(d.wrote.Add(pause).Sub(now), 0)
}

// wrote records a write of the label, and reports whether it is disputed from now on.
func (m *memory) wrote(machine client.ObjectKey, label, value string, now time.Time, pause time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.of(machine)
	d, known := state.disputes[label]
	if known && d.value == value && now.Sub(d.wrote) <= 2*pause {
		d.lost++
	} else {
		d.lost = 0
	}
	d.value, d.wrote = value, now
	state.disputes[label] = d
	return d.lost >= maxRestores
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tolerated is how often in a row a label is put back at once that somebody else changes.
const tolerated = 3

// memory is what is remembered of machines from one reconcile to the next. It goes with
// the process: that costs an event that is told twice, or a label that is put back once
// more. The zero value is ready, and safe for concurrent use.
type memory struct {
	mu       sync.Mutex
	machines map[client.ObjectKey]*remembered
}

type remembered struct {
	told     map[string]string
	disputes map[string]dispute
}

// dispute is about a label that was written here: the value, when it was written last,
// and how often in a row it was found changed.
type dispute struct {
	value string
	wrote time.Time
	lost  int
}

func (m *memory) of(machine client.ObjectKey) *remembered {
	if m.machines == nil {
		m.machines = map[client.ObjectKey]*remembered{}
	}
	if m.machines[machine] == nil {
		m.machines[machine] = &remembered{told: map[string]string{}, disputes: map[string]dispute{}}
	}
	return m.machines[machine]
}

// forget the machine: it is gone.
func (m *memory) forget(machine client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.machines, machine)
}

// news says whether the message was not the last that was told for the reason.
func (m *memory) news(machine client.ObjectKey, reason, message string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of(machine)
	if was.told[reason] == message {
		return false
	}
	was.told[reason] = message
	return true
}

// yields returns how long the label is left as somebody else has it: those that were put
// back more often than is tolerated wait for a pause in between.
func (m *memory) yields(machine client.ObjectKey, label, value string, now time.Time, pause time.Duration) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, known := m.of(machine).disputes[label]
	if !known || d.value != value || d.lost < tolerated {
		return 0
	}
	return max(d.wrote.Add(pause).Sub(now), 0)
}

// wrote remembers that the label was written, and says whether from now on it yields.
func (m *memory) wrote(machine client.ObjectKey, label, value string, now time.Time, pause time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.of(machine)
	d, known := was.disputes[label]
	if known && d.value == value && now.Sub(d.wrote) <= 2*pause {
		d.lost++
	} else {
		d.lost = 0
	}
	d.value, d.wrote = value, now
	was.disputes[label] = d
	return d.lost >= tolerated
}

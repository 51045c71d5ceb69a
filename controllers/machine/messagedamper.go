// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// words remembers when machines without a host last got another message of why. It counts
// hosts, and each copy of it is a write: here, and in the Machine by Cluster API. So it is
// written at once after a rest, for whoever has just changed something and looks, and then
// left alone for a while. What is lost with the process is one write for each machine. The
// zero value is ready.
type words struct {
	mu      sync.Mutex
	changed map[types.UID]time.Time
}

// choose returns the message to show: the new one, or the one that the machine shows
// already, if that says the same reason and was another less than rest ago.
func (w *words) choose(machine *infrav1.IngotMachine, reason, message string, now time.Time, rest time.Duration) string {
	shown := conditions.Get(machine, infrav1.MachineHostClaimedCondition)
	if shown == nil || shown.Status != metav1.ConditionFalse || shown.Reason != reason || shown.ObservedGeneration != machine.Generation {
		return message // it is written in any case
	}
	if shown.Message == message {
		return message
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, ok := w.changed[machine.UID]; ok && now.Before(at.Add(rest)) {
		return shown.Message
	}
	for uid, at := range w.changed { // of machines that are gone, or have a host
		if !now.Before(at.Add(rest)) {
			delete(w.changed, uid)
		}
	}
	if w.changed == nil {
		w.changed = map[types.UID]time.Time{}
	}
	w.changed[machine.UID] = now
	return message
}

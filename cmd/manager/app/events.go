// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ingot-metal/ingot/inventory"
)

// maxNote is how long the note of an Event may be, in bytes: the API server refuses the
// Event otherwise, and whoever records it does not hear of that.
const maxNote = 1024

// noting is a manager whose event recorders cut their notes.
type noting struct{ manager.Manager }

// GetEventRecorder returns a recorder for whoever asks.
func (m noting) GetEventRecorder(name string) events.EventRecorder {
	return notes{m.Manager.GetEventRecorder(name)}
}

// notes cuts what does not fit into an Event. Messages are bounded by characters, and what
// to do is said after them.
type notes struct{ events.EventRecorder }

// Eventf records an event.
func (n notes) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	n.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", inventory.TruncateBytes(fmt.Sprintf(note, args...), maxNote))
}

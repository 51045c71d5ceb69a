// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bootstrap"
)

// notWithIgnition says what a machine asks for that does not go with bootstrap data for
// Ignition, and how to do without; why is empty where all of it does. Ignition reads no
// networkData, and it makes its own mirror, which the agent would find out only once both
// disks are written (docs/book/mirror.md).
func notWithIgnition(machine *infrav1.IngotMachine) (reason, why string) {
	switch {
	case machine.Spec.NetworkData != nil:
		return infrav1.ReasonNetworkDataWithIgnition,
			"which does not read networkData. Give the network in the Ignition configuration"
	case machine.Spec.SoftwareRAID != nil:
		return infrav1.ReasonSoftwareRAIDWithIgnition,
			"which makes its own mirror. Give it in the Ignition configuration instead of softwareRAID"
	}
	return "", ""
}

// formatFits stops a machine whose bootstrap data is for Ignition, where that does not go
// with what it asks for, before a host is looked for: it is the same on every host, and
// none is to blame. What was read a while ago is not read again at each look; it is before
// the choice is recorded.
func (r *Reconciler) formatFits(ctx context.Context, s *scope) (outcome, error) {
	if _, why := notWithIgnition(s.machine); why == "" || r.formats.known(s, r.Clock.Now()) {
		return next, nil
	}
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil {
		return next, err
	}
	return r.refuseFormat(s, secret), nil
}

// refuseFormat stops the machine if the Secret is for Ignition and must not be.
func (r *Reconciler) refuseFormat(s *scope, secret *corev1.Secret) outcome {
	reason, why := notWithIgnition(s.machine)
	if why == "" {
		return next
	}
	if string(secret.Data[bootstrap.FormatKey]) != agentapi.FormatIgnition {
		r.formats.note(s, r.Clock.Now())
		return next
	}
	message := fmt.Sprintf("Bootstrap Secret %s is for Ignition, %s, or use cloud-config; then delete Machine %s.", secret.Name, why, s.owner.Name)
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)) // the Secret may be made anew
}

// formatMemory is how long it is remembered that a Secret's format will do.
const formatMemory = 10 * time.Minute

// formats remembers which machines' bootstrap Secrets have a format that will do: those
// that wait for a host, perhaps a thousand, look every half minute, and each read would be
// a live one of a Secret. What is lost with the process is one read. The zero value is
// ready.
type formats struct {
	mu   sync.Mutex
	seen map[types.UID]seenFormat
}

type seenFormat struct {
	secret string
	until  time.Time
}

func (f *formats) known(s *scope, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	seen, ok := f.seen[s.machine.UID]
	return ok && now.Before(seen.until) && seen.secret == ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")
}

func (f *formats) note(s *scope, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uid, seen := range f.seen { // of machines that are gone, or have a host
		if !now.Before(seen.until) {
			delete(f.seen, uid)
		}
	}
	if f.seen == nil {
		f.seen = map[types.UID]seenFormat{}
	}
	f.seen[s.machine.UID] = seenFormat{secret: ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, ""), until: now.Add(formatMemory)}
}

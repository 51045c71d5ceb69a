// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// promise is what a claim would do to what Clusters were promised.
type promise int

const (
	// kept: nobody is worse off.
	kept promise = iota
	// broken: a Cluster would go without a host that it was promised.
	broken
	// unsure: the cache is too old to tell.
	unsure
)

// keepsPromises says whether the claim that the machine is about to make is one that
// promises allow. Whoever promises hosts writes down what is asked for before it looks
// at the intents of machines; the machine has written its intent, and looks now: so that
// at least one sees the other. There is no lock, and where nothing is promised all it
// costs is one empty list (decision 0163).
func (r *Reconciler) keepsPromises(ctx context.Context, s *scope, id infrav1.ProviderID) (promise, error) {
	reservations := &infrav1.IngotReservationList{}
	if err := r.Live.List(ctx, reservations, client.InNamespace(s.machine.Namespace)); err != nil {
		return unsure, fmt.Errorf("live read of the reservations: %w", err)
	}
	if len(reservations.Items) == 0 {
		return kept, nil
	}
	in, err := r.gather(ctx, s.machine.Namespace)
	if err != nil {
		return unsure, err
	}
	in.reservations = reservations.Items
	return r.picks.keeps(s, in, r.Clock.Now(), id)
}

// keeps judges by what the cache shows of the intents of other machines, once it shows
// the machine's own: then it shows all that were written before. So of two intents the
// later one sees the earlier, whichever process wrote it.
func (p *picks) keeps(s *scope, in stock, now time.Time, id infrav1.ProviderID) (promise, error) {
	candidates := allocation.Candidates(in.hosts, in.hardware)
	p.mu.Lock()
	defer p.mu.Unlock()
	request := p.request(s, in, now)
	if len(request.Promises) == 0 {
		return kept, nil
	}
	shown := false
	for i := range in.machines {
		shown = shown || in.machines[i].UID == s.machine.UID && in.machines[i].Spec.ProviderID == id.String()
	}
	if !shown {
		return unsure, nil
	}
	ok, err := allocation.KeepsPromises(request, candidates, id.Host)
	switch {
	case err != nil:
		return unsure, fmt.Errorf("promises of hosts: %w", err)
	case !ok:
		return broken, nil
	}
	return kept, nil
}

// findImage reads the IngotImage that the machine names. Without it no host is chosen:
// its architecture is part of the choice, and the claim freezes the rest (I3).
func (r *Reconciler) findImage(ctx context.Context, s *scope) (outcome, error) {
	ref := s.machine.Spec.ImageRef
	if ref == nil || s.catalogued != nil {
		return next, nil
	}
	image := &infrav1.IngotImage{}
	err := r.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, image)
	if apierrors.IsNotFound(err) {
		message := fmt.Sprintf("IngotImage %s, which spec.imageRef names, does not exist. Create it; a host is chosen as soon as it is there", ref.Name)
		if s.notClaimed(infrav1.ReasonImageMissing, message) {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonImageMissing, action, "%s", message)
		}
		return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil
	}
	if err != nil {
		return next, fmt.Errorf("image %s: %w", ref.Name, err)
	}
	s.catalogued = image
	return next, nil
}

// architecture that the image asks for; empty: any.
func (s *scope) architecture() string {
	if s.catalogued == nil {
		return ""
	}
	return s.catalogued.Spec.Architecture
}

// image to install, as the claim freezes it.
func (s *scope) image() infrav1.Image {
	if s.catalogued == nil {
		return s.machine.Spec.Image
	}
	return s.catalogued.Spec.Image()
}

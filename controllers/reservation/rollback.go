// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package reservation

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// maxRemembered bounds an annotation, in bytes: all of an object's together may have
// 256 KiB. What is longer is not remembered.
const maxRemembered = 100_000

// byHand says whether a person made the promise.
func byHand(spec infrav1.IngotReservationSpec) bool { return spec.AskedAt.IsZero() }

// remember writes down, in asked, what stands now and is to stand again. It is kept in the
// object, so that whoever ends what is asked for, another replica or after a crash, can.
func remember(asked, own *infrav1.IngotReservation, now time.Time) {
	if own.Spec.State == infrav1.ReservationAsked {
		return // who asked first has written it down
	}
	forget(asked, infrav1.BeforeAskingAnnotation)
	if !allocation.Stands(own, now) {
		return
	}
	if byHand(own.Spec) {
		note(asked, infrav1.ByHandAnnotation, own.Spec)
	}
	if byHand(own.Spec) || asked.Spec.Purpose == infrav1.ReservationUpgrade {
		note(asked, infrav1.BeforeAskingAnnotation, own.Spec)
	}
}

// settled forgets what a promise has taken the place of for good: all, but during an
// upgrade what a person promised.
func settled(promised *infrav1.IngotReservation) {
	forget(promised, infrav1.BeforeAskingAnnotation)
	if promised.Spec.Purpose != infrav1.ReservationUpgrade {
		forget(promised, infrav1.ByHandAnnotation)
	}
}

// rollback returns the reservation as it was, by the first of the annotations whose
// promise still stands; nil: nothing does.
func rollback(r *infrav1.IngotReservation, now time.Time, annotations ...string) *infrav1.IngotReservation {
	for _, annotation := range annotations {
		var spec infrav1.IngotReservationSpec
		if err := json.Unmarshal([]byte(r.Annotations[annotation]), &spec); err != nil || len(spec.Groups) == 0 {
			continue // there is none, or somebody wrote into it
		}
		back := r.DeepCopy()
		back.Spec = spec
		forget(back, infrav1.BeforeAskingAnnotation)
		if byHand(spec) {
			forget(back, infrav1.ByHandAnnotation)
		}
		if allocation.Stands(back, now) {
			return back
		}
	}
	return nil
}

// withdraw ends what was asked for, unless it has changed: then it was promised, or asked
// for anew. What it took the place of stands again.
func withdraw(ctx context.Context, c client.Client, r *infrav1.IngotReservation, now time.Time) error {
	err := restoreOrDelete(ctx, c, r, rollback(r, now, infrav1.BeforeAskingAnnotation, infrav1.ByHandAnnotation))
	if err != nil && !retry(err) {
		return fmt.Errorf("withdraw what Cluster %s asked for: %w", r.Name, err)
	}
	return nil
}

// restoreOrDelete puts back what was there before r, or deletes r; both only as it was
// seen.
func restoreOrDelete(ctx context.Context, c client.Client, r, back *infrav1.IngotReservation) error {
	if back == nil {
		return c.Delete(ctx, r, client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	}
	return c.Patch(ctx, back, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{}))
}

func note(r *infrav1.IngotReservation, annotation string, spec infrav1.IngotReservationSpec) {
	data, err := json.Marshal(spec)
	if err != nil || len(data) > maxRemembered {
		return
	}
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[annotation] = string(data)
}

func forget(r *infrav1.IngotReservation, annotation string) { delete(r.Annotations, annotation) }

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

// maxStoredSpec bounds a stored spec, in bytes: all annotations of an object may have 256 KiB. A
// larger spec is not stored.
const maxStoredSpec = 100_000

func isManual(spec infrav1.IngotReservationSpec) bool { return spec.RequestTime.IsZero() }

// storePrevious stores the valid reservation own in annotations of the request asked. Any replica
// can then restore it, also after a crash.
func storePrevious(asked, own *infrav1.IngotReservation, now time.Time) {
	if own.Spec.State == infrav1.ReservationRequested {
		return // the first request stored it
	}
	delete(asked.Annotations, infrav1.PreviousSpecAnnotation)
	if !allocation.IsInForce(own, now) {
		return
	}
	if isManual(own.Spec) {
		storeSpec(asked, infrav1.ManualSpecAnnotation, own.Spec)
	}
	if isManual(own.Spec) || asked.Spec.Purpose == infrav1.ReservationUpgrade {
		storeSpec(asked, infrav1.PreviousSpecAnnotation, own.Spec)
	}
}

// discardPrevious discards the reservation that a granted request replaced. An upgrade keeps the
// one that an operator created.
func discardPrevious(reserved *infrav1.IngotReservation) {
	delete(reserved.Annotations, infrav1.PreviousSpecAnnotation)
	if reserved.Spec.Purpose != infrav1.ReservationUpgrade {
		delete(reserved.Annotations, infrav1.ManualSpecAnnotation)
	}
}

// rollback returns the previous reservation by the first annotation that holds a valid one; nil:
// none.
func rollback(r *infrav1.IngotReservation, now time.Time, annotations ...string) *infrav1.IngotReservation {
	for _, annotation := range annotations {
		var spec infrav1.IngotReservationSpec
		if err := json.Unmarshal([]byte(r.Annotations[annotation]), &spec); err != nil || len(spec.Groups) == 0 {
			continue // missing or edited
		}
		previous := r.DeepCopy()
		previous.Spec = spec
		delete(previous.Annotations, infrav1.PreviousSpecAnnotation)
		if isManual(spec) {
			delete(previous.Annotations, infrav1.ManualSpecAnnotation)
		}
		if allocation.IsInForce(previous, now) {
			return previous
		}
	}
	return nil
}

// withdraw ends a request and restores the previous reservation, unless the request changed:
// then it was granted or repeated.
func withdraw(ctx context.Context, c client.Client, r *infrav1.IngotReservation, now time.Time) error {
	err := restoreOrDelete(ctx, c, r, rollback(r, now, infrav1.PreviousSpecAnnotation, infrav1.ManualSpecAnnotation))
	if err != nil && !isRetry(err) {
		return fmt.Errorf("withdraw the request of Cluster %s: %w", r.Name, err)
	}
	return nil
}

// restoreOrDelete restores the previous reservation or, if it is nil, deletes r. It fails with a
// conflict if r changed.
func restoreOrDelete(ctx context.Context, c client.Client, r, previous *infrav1.IngotReservation) error {
	if previous == nil {
		return c.Delete(ctx, r, client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
	}
	return c.Patch(ctx, previous, client.MergeFromWithOptions(r, client.MergeFromWithOptimisticLock{}))
}

func storeSpec(r *infrav1.IngotReservation, annotation string, spec infrav1.IngotReservationSpec) {
	data, err := json.Marshal(spec)
	if err != nil || len(data) > maxStoredSpec {
		return
	}
	if r.Annotations == nil {
		r.Annotations = map[string]string{}
	}
	r.Annotations[annotation] = string(data)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// followCleaning carries to the claim what may change on a running server: what is to be
// done to the disks when the machine is released (M64). A claim whose release has
// begun stays as it is.
func (r *Reconciler) followCleaning(ctx context.Context, s *scope) (outcome, error) {
	wanted, claim := s.machine.Spec.Cleaning, s.host.Spec.Claim
	if wanted == "" || wanted == claim.Cleaning || claim.State == infrav1.ClaimReleasing {
		return next, nil
	}
	changed := s.host.DeepCopy()
	changed.Spec.Claim.Cleaning = wanted
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(s.host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return stop(r.waits().Conflict), nil
	}
	if err != nil {
		return next, fmt.Errorf("cleaning in the claim of host %s: %w", s.host.Name, err)
	}
	s.host = changed
	return next, nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/bootstrap"
)

// mirrorIsMade stops a machine whose root is to be on two disks where Ignition sets its
// system up: that makes its own mirror, and the agent would find it out only once both
// disks are written (docs/book/mirror.md).
func (r *Reconciler) mirrorIsMade(ctx context.Context, s *scope) (outcome, error) {
	if s.machine.Spec.SoftwareRAID == nil {
		return next, nil
	}
	return r.notForIgnition(ctx, s, infrav1.ReasonSoftwareRAIDWithIgnition,
		"which makes its own mirror; no host is chosen. Leave softwareRAID out of the IngotMachineTemplate and give the mirror in the Ignition configuration (boot_device.mirror of Butane)")
}

// notForIgnition stops a machine whose bootstrap data is for Ignition before a host is
// held and written: it is the same on every host, and none is to blame. why says what
// does not go with Ignition, and how to do without.
func (r *Reconciler) notForIgnition(ctx context.Context, s *scope, reason, why string) (outcome, error) {
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil || string(secret.Data[bootstrap.FormatKey]) != agentapi.FormatIgnition {
		return next, err
	}
	message := fmt.Sprintf("Bootstrap Secret %s is for Ignition, %s, or use cloud-config; then delete Machine %s to replace it", secret.Name, why, s.owner.Name)
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil // the Secret may be made anew
}

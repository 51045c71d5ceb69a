// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/ignition"
)

// Keys of a bootstrap Secret, which say what its data is, and for what (contract of
// bootstrap providers).
const (
	valueKey  = "value"
	formatKey = "format"
)

// bootstrapSecret is nil where there is none yet.
func (r *Reconciler) bootstrapSecret(ctx context.Context, s *scope) (*corev1.Secret, error) {
	name := ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: name}, secret)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("bootstrap data of Machine %s: %w", s.owner.Name, err)
	}
	return secret, nil
}

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
	if err != nil || secret == nil || string(secret.Data[formatKey]) != agentapi.FormatIgnition {
		return next, err
	}
	message := fmt.Sprintf("Bootstrap Secret %s is for Ignition, %s, or use cloud-config; then delete Machine %s to replace it", secret.Name, why, s.owner.Name)
	if s.notClaimed(reason, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, reason, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil // the Secret may be made anew
}

// ignitionIsRead stops a machine that has chosen its host, before the choice is recorded,
// where its system would be given an Ignition configuration that none reads: it is the same
// on every host, and no host is to blame.
func (r *Reconciler) ignitionIsRead(ctx context.Context, s *scope) (outcome, error) {
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil || string(secret.Data[formatKey]) != agentapi.FormatIgnition {
		return next, err
	}
	if _, err = ignition.Config(secret.Data[valueKey], ignition.Additions{}); err == nil {
		return next, nil
	}
	r.picks.forget(s.machine.UID)
	message := fmt.Sprintf("Bootstrap Secret %s: %v; no host is chosen. Mend it in the bootstrap configuration, then delete Machine %s to replace it", secret.Name, err, s.owner.Name)
	if s.notClaimed(infrav1.ReasonBootstrapDataInvalid, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonBootstrapDataInvalid, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil // the Secret may be made anew
}

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
	"github.com/ingot-metal/ingot/internal/bootstrap"
	"github.com/ingot-metal/ingot/internal/ignition"
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

// bootstrapIsRead stops a machine that has chosen its host, before the choice is recorded,
// where its system would be given bootstrap data that none reads: it is the same on every
// host, and no host is to blame.
func (r *Reconciler) bootstrapIsRead(ctx context.Context, s *scope) (outcome, error) {
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil {
		return next, err
	}
	if out := r.refuseFormat(s, secret); out.stop { // it was read a while ago
		r.picks.forget(s.machine.UID)
		return out, nil
	}
	if err = readable(secret, s.machine.Spec.Live != nil); err == nil {
		return next, nil
	}
	r.picks.forget(s.machine.UID)
	message := fmt.Sprintf("Bootstrap Secret %s: %v. Ingot chooses no host. Correct the bootstrap configuration, then delete Machine %s.", secret.Name, err, s.owner.Name)
	if s.notClaimed(infrav1.ReasonBootstrapDataInvalid, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonBootstrapDataInvalid, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)), nil // the Secret may be made anew
}

// readable says why no system reads the data. That of a live system need not be text.
func readable(secret *corev1.Secret, live bool) error {
	data := secret.Data[bootstrap.ValueKey]
	if !live {
		text, err := bootstrap.Text(data)
		if err != nil {
			return err
		}
		data = []byte(text)
	}
	if string(secret.Data[bootstrap.FormatKey]) != agentapi.FormatIgnition {
		return nil
	}
	_, err := ignition.Config(data, ignition.Additions{})
	return err
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
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
		r.selections.forget(s.machine.UID)
		return out, nil
	}
	if err = readable(secret, s.machine.Spec.Live != nil); err == nil {
		return next, nil
	}
	r.selections.forget(s.machine.UID)
	message := fmt.Sprintf("Bootstrap Secret %s: %v. Ingot chooses no host. Correct the bootstrap configuration, then delete Machine %s.", secret.Name, err, s.owner.Name)
	r.refuse(s, infrav1.ReasonBootstrapDataInvalid, message)
	return r.retryLater(), nil // the Secret may be made anew
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
	if _, why := notWithIgnition(s.machine); why == "" || r.hasOtherFormat(s) {
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
		r.otherFormats.Add(formatKey(s), r.Clock.Now(), formatMemory)
		return next
	}
	message := fmt.Sprintf("Bootstrap Secret %s is for Ignition, %s, or use cloud-config; then delete Machine %s.", secret.Name, why, s.owner.Name)
	r.refuse(s, reason, message)
	return r.retryLater() // the Secret may be made anew
}

// formatMemory is how long it is remembered that a Secret's format will do: machines that
// wait for a host, perhaps a thousand, look every half minute, and each read would be a live
// one of a Secret.
const formatMemory = 10 * time.Minute

// formatOf names the bootstrap Secret of a machine.
type formatOf struct {
	machine types.UID
	secret  string
}

func formatKey(s *scope) formatOf {
	return formatOf{s.machine.UID, ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")}
}

func (r *Reconciler) hasOtherFormat(s *scope) bool {
	_, known := r.otherFormats.Has(formatKey(s), r.Clock.Now())
	return known
}

// liveOverheard says whether the machine's live system would be sent its bootstrap data
// in clear, over a network that its cluster does not trust.
func (s *scope) liveOverheard() bool {
	live := s.machine.Spec.Live
	return live != nil && live.DataTransport != infrav1.LiveHTTPS &&
		s.ingotCluster != nil && s.ingotCluster.Spec.BootTrust == infrav1.BootTrustVerified
}

// refuseLive stops such a machine before a host is held: it is the same on every host.
func (r *Reconciler) refuseLive(s *scope) outcome {
	message := fmt.Sprintf("IngotCluster %s has bootTrust Verified, and live.dataTransport HTTP sends bootstrap data in clear. Ingot chooses no host. "+
		"Use dataTransport HTTPS or an image, then delete Machine %s.", s.ingotCluster.Name, s.owner.Name)
	r.refuse(s, infrav1.ReasonLiveNotVerified, message)
	return r.retryLater() // the cluster may change its mind
}

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

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bootstrap"
	"github.com/ingot-metal/ingot/internal/ignition"
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

// bootstrapSecret reads the Machine's bootstrap Secret live; nil: it does not exist yet.
func (r *Reconciler) bootstrapSecret(ctx context.Context, s *scope) (*corev1.Secret, error) {
	name := ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return nil, nil
	}
	return kubeutil.Find[corev1.Secret](ctx, r.Live, s.machine.Namespace, name)
}

// checkBootstrapData stops a machine with invalid bootstrap data after the selection of a host
// and before the intent is written: the data would fail on every host.
func (r *Reconciler) checkBootstrapData(ctx context.Context, s *scope) (outcome, error) {
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil {
		return next, err
	}
	if out := r.refuseFormat(s, secret); out.stop { // checkFormat may have used its memory
		r.selections.forget(s.machine.UID)
		return out, nil
	}
	if err = validate(secret, s.machine.Spec.Live != nil); err == nil {
		return next, nil
	}
	r.selections.forget(s.machine.UID)
	message := fmt.Sprintf("Bootstrap Secret %s: %v. Ingot selects no host. Correct the bootstrap configuration, then delete Machine %s.", secret.Name, err, s.owner.Name)
	r.refuse(s, infrav1.ReasonBootstrapDataInvalid, message)
	return r.retryLater(), nil // the Secret may be recreated
}

// validate checks whether a system can read the bootstrap data. The data of a live system need
// not be text.
func validate(secret *corev1.Secret, live bool) error {
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

// conflictsWithIgnition returns the setting of the machine that Ignition does not support, and
// the remedy; why is empty without a conflict. Ignition does not read networkData and creates its
// own mirror (docs/book/tasks/software-raid.md).
func conflictsWithIgnition(machine *infrav1.IngotMachine) (reason, why string) {
	switch {
	case machine.Spec.NetworkData != nil:
		return infrav1.ReasonNetworkDataWithIgnition,
			"which does not read networkData. Configure the network in Ignition"
	case machine.Spec.SoftwareRAID != nil:
		return infrav1.ReasonSoftwareRAIDWithIgnition,
			"which creates its own mirror. Configure the mirror in Ignition instead of softwareRAID"
	}
	return "", ""
}

// checkFormat stops a machine whose settings conflict with its bootstrap data for Ignition before
// the selection of a host: the data would fail on every host. The result is remembered for
// formatMemory; checkBootstrapData reads the Secret again.
func (r *Reconciler) checkFormat(ctx context.Context, s *scope) (outcome, error) {
	if _, why := conflictsWithIgnition(s.machine); why == "" {
		return next, nil
	}
	if _, known := r.notIgnition.Has(secretKeyOf(s), r.Clock.Now()); known {
		return next, nil
	}
	secret, err := r.bootstrapSecret(ctx, s)
	if err != nil || secret == nil {
		return next, err
	}
	return r.refuseFormat(s, secret), nil
}

// refuseFormat stops the machine if its settings conflict with a Secret for Ignition.
func (r *Reconciler) refuseFormat(s *scope, secret *corev1.Secret) outcome {
	reason, why := conflictsWithIgnition(s.machine)
	if why == "" {
		return next
	}
	if string(secret.Data[bootstrap.FormatKey]) != agentapi.FormatIgnition {
		r.notIgnition.Add(secretKeyOf(s), r.Clock.Now(), formatMemory)
		return next
	}
	message := fmt.Sprintf("Bootstrap Secret %s is for Ignition, %s, or use cloud-config; then delete Machine %s.", secret.Name, why, s.owner.Name)
	r.refuse(s, reason, message)
	return r.retryLater() // the Secret may be recreated
}

// formatMemory is how long the format of a Secret is remembered. A thousand waiting machines may
// retry every half minute, and each check would read a Secret live.
const formatMemory = 10 * time.Minute

// bootstrapSecretKey names the bootstrap Secret of a machine.
type bootstrapSecretKey struct {
	machine types.UID
	secret  string
}

func secretKeyOf(s *scope) bootstrapSecretKey {
	return bootstrapSecretKey{s.machine.UID, ptr.Deref(s.owner.Spec.Bootstrap.DataSecretName, "")}
}

// exposesLiveData reports whether the live system would get its bootstrap data unencrypted in a
// cluster that requires a verified boot.
func (s *scope) exposesLiveData() bool {
	live := s.machine.Spec.Live
	return live != nil && live.DataTransport != infrav1.LiveHTTPS &&
		s.ingotCluster != nil && s.ingotCluster.Spec.BootTrust == infrav1.BootTrustVerified
}

// refuseLive stops a machine that exposes live data before the selection of a host.
func (r *Reconciler) refuseLive(s *scope) outcome {
	message := fmt.Sprintf("IngotCluster %s has bootTrust Verified, but live.dataTransport HTTP is not encrypted. Ingot selects no host. "+
		"Use dataTransport HTTPS or an image, then delete Machine %s.", s.ingotCluster.Name, s.owner.Name)
	r.refuse(s, infrav1.ReasonLiveDataNotVerified, message)
	return r.retryLater() // the IngotCluster may change
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

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
	if s.notClaimed(infrav1.ReasonLiveNotVerified, message) {
		r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, infrav1.ReasonLiveNotVerified, action, "%s", message)
	}
	return stop(wait.Jitter(r.waits().Placement, retryJitter)) // the cluster may change its mind
}

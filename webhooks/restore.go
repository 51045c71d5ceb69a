// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// hostDefaulter normalizes hosts, records which user gave their commands (I24), and pauses hosts
// that are restored from a backup.
type hostDefaulter struct{ clock clock.PassiveClock }

// Default implements admission.Defaulter. It never fails.
func (d hostDefaulter) Default(ctx context.Context, host *v1beta2.IngotHost) error {
	defaultHost(host)
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil
	}
	var before *v1beta2.IngotHost
	if req.Operation == admissionv1.Create {
		d.pauseRestored(host)
	} else if old := (&v1beta2.IngotHost{}); json.Unmarshal(req.OldObject.Raw, old) == nil {
		before = old
	}
	inventory.RecordCommandUsers(before, host, req.UserInfo.Username)
	return nil
}

// pauseRestored replaces the annotation block-move of a new host by the pause of a move. Only Ingot
// sets block-move, on existing hosts. A new host with it was saved before it was paused, for example
// by clusterctl move --to-directory, which does not wait for block-move.
func (d hostDefaulter) pauseRestored(host *v1beta2.IngotHost) {
	if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return
	}
	delete(host.Annotations, clusterctlv1.BlockMoveAnnotation)
	if _, paused := host.Annotations[v1beta2.MovePausedAnnotation]; !paused {
		// Times have a resolution of one second. One minute makes the pause clearly older than the host.
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, v1beta2.MovePausedAnnotation, d.clock.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	}
}

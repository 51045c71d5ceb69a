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

// hostDefaulter brings hosts into canonical form, records who gave their commands (I24), and
// has those stand still that come from a backup.
type hostDefaulter struct{ clock clock.PassiveClock }

var _ admission.Defaulter[*v1beta2.IngotHost] = hostDefaulter{}

// Default changes host in place. It never fails.
func (d hostDefaulter) Default(ctx context.Context, host *v1beta2.IngotHost) error {
	defaultHost(host)
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil
	}
	var before *v1beta2.IngotHost
	if req.Operation == admissionv1.Create {
		d.arrive(host)
	} else if old := (&v1beta2.IngotHost{}); json.Unmarshal(req.OldObject.Raw, old) == nil {
		before = old
	}
	inventory.RecordCommandUsers(before, host, req.UserInfo.Username)
	return nil
}

// arrive makes the block-move of a host that is being created the pause of a move, dated
// before it, so that it rests as one that was moved. Only Ingot sets block-move, on hosts
// that are there: a host that comes with it was saved while it did not stand still, as by
// clusterctl move --to-directory, which does not wait for that (decision 0287).
func (d hostDefaulter) arrive(host *v1beta2.IngotHost) {
	if _, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]; !blocked {
		return
	}
	delete(host.Annotations, clusterctlv1.BlockMoveAnnotation)
	if _, paused := host.Annotations[v1beta2.MovePausedAnnotation]; !paused {
		// To the second, as both times are written: a minute leaves no doubt which was first.
		metav1.SetMetaDataAnnotation(&host.ObjectMeta, v1beta2.MovePausedAnnotation, d.clock.Now().Add(-time.Minute).UTC().Format(time.RFC3339))
	}
}

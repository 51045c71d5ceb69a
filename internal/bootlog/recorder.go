// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts/status,verbs=patch

// eventAction is the action of this package's events.
const eventAction = "RecordBoot"

// Recorder writes boots into the status of their hosts. All fields are required.
type Recorder struct {
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder
}

// Record records finished boots. It skips hosts that are deleted or paused. After an error all boots may
// be recorded again.
func (r *Recorder) Record(ctx context.Context, boots []bootlog.Boot) error {
	var errs []error
	for _, b := range boots {
		namespace, name, ok := strings.Cut(b.Host, "/")
		if !ok || len(b.Marks) == 0 || !isOutcome(b.Outcome) {
			continue
		}
		record := recordOf(b)
		host, err := r.change(ctx, client.ObjectKey{Namespace: namespace, Name: name}, func(boots []infrav1.BootRecord) []infrav1.BootRecord {
			return add(boots, record)
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.warnStopped(host, b, record)
	}
	return errors.Join(errs...)
}

func isOutcome(o bootlog.Outcome) bool {
	return o == bootlog.AgentStarted || o == bootlog.BootedFromDisk || o == bootlog.Incomplete
}

// End records how the order of the host's last boot ended.
func (r *Recorder) End(ctx context.Context, host client.ObjectKey, at time.Time, succeeded bool) error {
	outcome := infrav1.BootFailed
	if succeeded {
		outcome = infrav1.BootSucceeded
	}
	_, err := r.change(ctx, host, func(boots []infrav1.BootRecord) []infrav1.BootRecord { return end(boots, at, outcome) })
	return err
}

// change writes the boots of a host if they change. It returns the host, or nil if it is deleted or
// nothing changed.
func (r *Recorder) change(ctx context.Context, key client.ObjectKey, next func([]infrav1.BootRecord) []infrav1.BootRecord) (*infrav1.IngotHost, error) {
	host := &infrav1.IngotHost{}
	changed := false
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := r.Live.Get(ctx, key, host); err != nil {
			return err
		}
		if changed = false; isPaused(host) {
			return nil
		}
		base := host.DeepCopy()
		host.Status.Boots = next(host.Status.Boots)
		if changed = !equality.Semantic.DeepEqual(base.Status.Boots, host.Status.Boots); !changed {
			return nil
		}
		return r.Client.Status().Patch(ctx, host, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	})
	// Boots that the schema rejects would be rejected again.
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || err == nil && !changed {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("record boots of host %s: %w", key, err)
	}
	return host, nil
}

// isPaused reports whether the host must not be written, even if its controller has not shown that yet
// (I10, M43).
func isPaused(host *infrav1.IngotHost) bool {
	_, moving := host.Annotations[infrav1.MovePausedAnnotation]
	return moving || annotations.HasPaused(host) || conditions.IsTrue(host, infrav1.PausedCondition)
}

// warnStopped records an event if a boot that should run the agent stopped before.
func (r *Recorder) warnStopped(host *infrav1.IngotHost, b bootlog.Boot, record infrav1.BootRecord) {
	if host == nil || b.Outcome != bootlog.Incomplete || host.Spec.Order == nil {
		return
	}
	trouble := ""
	if record.Error != "" {
		trouble = " Last failed request: " + record.Error + "."
	}
	r.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonNetworkBootIncomplete, eventAction,
		"A network boot (%s) stopped after %s, before the agent ran.%s Ingot powers the host off at the agent's deadline and retries. Check the server's console.",
		record.Firmware, record.Stages[len(record.Stages)-1].Name, trouble)
}

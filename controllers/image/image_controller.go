// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/timing"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotimages,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotimages/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

const action = "CheckImage" // of all events

// jitter is the random part added to the check interval.
const jitter = 0.2

// Reconciler checks IngotImages. Client, HTTP, Recorder and Clock are required.
type Reconciler struct {
	Client client.Client
	// HTTP connects only to sources that the operator allows.
	HTTP     HTTPDoer
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	Timing   timing.Timing
	// Timeout is the time limit of one request; zero: defaultTimeout.
	Timeout time.Duration
	// WatchFilterValue selects the images to check by label (M41); empty: all.
	WatchFilterValue string
}

// Reconcile checks an image if a check is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	image := &infrav1.IngotImage{}
	if err := r.Client.Get(ctx, req.NamespacedName, image); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !image.DeletionTimestamp.IsZero() || r.WatchFilterValue != "" && !labels.HasWatchLabel(image, r.WatchFilterValue) {
		return ctrl.Result{}, nil
	}
	// An image belongs to no Cluster: only its annotation pauses it (M43, M44).
	if isPaused, _, err := paused.EnsurePausedCondition(ctx, r.Client, nil, image); err != nil || isPaused {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if due := r.due(image); due > 0 {
		return ctrl.Result{RequeueAfter: due}, nil
	}
	base := image.DeepCopy()
	result := r.probe(ctx, image.Spec)
	if ctx.Err() != nil {
		return ctrl.Result{}, ctx.Err() // the manager stops; this is not the image's failure
	}
	image.Status.ObservedGeneration = image.Generation
	image.Status.LastCheckTime, image.Status.CheckedURL = metav1.NewTime(r.Clock.Now()), image.Spec.URL
	was := conditions.Get(image, infrav1.ImageReachableCondition)
	conditions.Set(image, metav1.Condition{Type: infrav1.ImageReachableCondition, Status: result.status(), Reason: result.reason,
		Message: result.message, ObservedGeneration: image.Generation})
	if result.status() != metav1.ConditionTrue && (was == nil || was.Reason != result.reason) {
		r.Recorder.Eventf(image, nil, corev1.EventTypeWarning, result.reason, action, "%s", result.message)
	}
	if !equality.Semantic.DeepEqual(base.Status, image.Status) {
		if err := r.Client.Status().Patch(ctx, image, client.MergeFrom(base)); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: wait.Jitter(r.interval(image), jitter)}, nil
}

func (r *Reconciler) due(image *infrav1.IngotImage) time.Duration {
	c := conditions.Get(image, infrav1.ImageReachableCondition)
	if c == nil || c.ObservedGeneration != image.Generation || image.Status.CheckedURL != image.Spec.URL {
		return 0
	}
	since := r.Clock.Since(image.Status.LastCheckTime.Time)
	if since < 0 {
		return 0 // the clock was set back
	}
	return max(0, r.interval(image)-since)
}

func (r *Reconciler) interval(image *infrav1.IngotImage) time.Duration {
	if conditions.IsTrue(image, infrav1.ImageReachableCondition) {
		return r.Timing.WithDefaults().ImageCheck
	}
	return r.Timing.WithDefaults().ImageRetry
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotImage{}, builder.WithPredicates(predicate.Or[client.Object](
			predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}),
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), r.WatchFilterValue))).
		WithOptions(options).
		Complete(r)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// Planner promises hosts.
type Planner interface {
	// Promise promises all that is asked for to the Cluster with the UID, or nothing: the
	// plan says what is missing. Asked again, it gives the same answer.
	Promise(ctx context.Context, uid types.UID, request allocation.PromiseRequest) (allocation.PromisePlan, error)
	// Finish takes back what was promised for an upgrade, which is over.
	Finish(ctx context.Context, uid types.UID, cluster types.NamespacedName) error
}

// Options of the handlers.
type Options struct {
	Inventory Inventory
	Planner   Planner
	// Contended is the Planner's error that goes away when it is asked again.
	Contended error
	Recorder  events.EventRecorder
}

// nameUpgradePlan is the handler that the ClusterClass ingot-runtime names.
const nameUpgradePlan = "generate-upgrade-plan"

// errInventory is all that a condition is to say of an API server that fails (R22).
var errInventory = errors.New("the inventory cannot be read now; the call is made again")

// contended is said while several Clusters ask for the same hosts.
const contended = "hosts are being promised to several Clusters at this moment"

// Handlers of the lifecycle hooks. An extension that is away holds what it would have
// to decide (failure policy Fail), but not what it would only write down (Ignore).
func Handlers(o Options) []server.ExtensionHandler {
	handler := func(hook runtimecatalog.Hook, name string, f runtimecatalog.Hook, policy runtimehooksv1.FailurePolicy) server.ExtensionHandler {
		return server.ExtensionHandler{
			Hook: hook, Name: name, HandlerFunc: f, FailurePolicy: &policy,
			TimeoutSeconds: ptr.To[int32](runtimehooksv1.DefaultHandlersTimeoutSeconds),
		}
	}
	// Those that only write down may fail; a call of AfterClusterUpgrade that was lost would
	// be taken for its success, and hosts stay promised for days.
	const fail, ignore = runtimehooksv1.FailurePolicyFail, runtimehooksv1.FailurePolicyIgnore
	return []server.ExtensionHandler{
		handler(runtimehooksv1.BeforeClusterCreate, "before-cluster-create", o.beforeClusterCreate, fail),
		handler(runtimehooksv1.AfterControlPlaneInitialized, "after-control-plane-initialized", o.afterControlPlaneInitialized, ignore),
		handler(runtimehooksv1.BeforeClusterUpgrade, "before-cluster-upgrade", o.beforeClusterUpgrade, fail),
		handler(runtimehooksv1.BeforeControlPlaneUpgrade, "before-control-plane-upgrade", o.beforeControlPlaneUpgrade, fail),
		handler(runtimehooksv1.AfterControlPlaneUpgrade, "after-control-plane-upgrade", o.afterControlPlaneUpgrade, ignore),
		handler(runtimehooksv1.BeforeWorkersUpgrade, "before-workers-upgrade", o.beforeWorkersUpgrade, fail),
		handler(runtimehooksv1.AfterWorkersUpgrade, "after-workers-upgrade", o.afterWorkersUpgrade, ignore),
		handler(runtimehooksv1.AfterClusterUpgrade, "after-cluster-upgrade", o.afterClusterUpgrade, fail),
		handler(runtimehooksv1.BeforeClusterDelete, "before-cluster-delete", o.beforeClusterDelete, fail),
		handler(runtimehooksv1.GenerateUpgradePlan, nameUpgradePlan, o.generateUpgradePlan, fail),
	}
}

func (o Options) beforeClusterCreate(ctx context.Context, request *runtimehooksv1.BeforeClusterCreateRequest, answer *runtimehooksv1.BeforeClusterCreateResponse) {
	verdict, err := o.create(ctx, &request.Cluster)
	settle(ctx, answer, verdict, err)
}

// create promises the hosts of a Cluster to it, once every image is known.
func (o Options) create(ctx context.Context, cluster *clusterv1.Cluster) (Verdict, error) {
	if ours, known := built(cluster); known && !ours || !cluster.Spec.Topology.IsDefined() {
		return Verdict{}, nil
	}
	wish, err := o.Inventory.wish(ctx, cluster)
	if err != nil || wish == nil {
		return Verdict{}, err
	}
	images, err := o.Inventory.Images(ctx)
	if err != nil {
		return Verdict{}, err
	}
	if missing := missingImages(images, wish.Groups, []string{cluster.Spec.Topology.Version}); len(missing) > 0 {
		return held(missing), nil
	}
	plan, err := o.Planner.Promise(ctx, cluster.UID, allocation.PromiseRequest{
		Namespace: cluster.Namespace, ClusterName: cluster.Name, Cluster: wish.Cluster, Demand: Demand(wish.Groups, images),
	})
	switch {
	case o.Contended != nil && errors.Is(err, o.Contended):
		return Verdict{Hold: true, Message: contended}, nil
	case err != nil || plan.Satisfied:
		return Verdict{}, err
	}
	return Verdict{Hold: true, Message: plan.Message}, nil
}

func (o Options) beforeClusterUpgrade(ctx context.Context, request *runtimehooksv1.BeforeClusterUpgradeRequest, answer *runtimehooksv1.BeforeClusterUpgradeResponse) {
	verdict, err := o.upgrade(ctx, &request.Cluster, part{
		controlPlane: true, workers: true,
		controlPlaneSteps: versions(request.ControlPlaneUpgrades, request.ToKubernetesVersion),
		workersSteps:      versions(request.WorkersUpgrades, request.ToKubernetesVersion),
	})
	settle(ctx, answer, verdict, err)
}

func (o Options) beforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, answer *runtimehooksv1.BeforeControlPlaneUpgradeResponse) {
	verdict, err := o.upgrade(ctx, &request.Cluster, part{
		controlPlane: true, controlPlaneSteps: versions(request.ControlPlaneUpgrades, request.ToKubernetesVersion),
	})
	settle(ctx, answer, verdict, err)
}

func (o Options) beforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest, answer *runtimehooksv1.BeforeWorkersUpgradeResponse) {
	verdict, err := o.upgrade(ctx, &request.Cluster, part{
		workers: true, workersSteps: versions(request.WorkersUpgrades, request.ToKubernetesVersion),
	})
	settle(ctx, answer, verdict, err)
}

func (o Options) upgrade(ctx context.Context, cluster *clusterv1.Cluster, p part) (Verdict, error) {
	if ours, _ := built(cluster); !ours || !cluster.Spec.Topology.IsDefined() {
		return Verdict{}, nil
	}
	upgrade, err := o.Inventory.upgrade(ctx, cluster, p)
	if err != nil || upgrade == nil {
		return Verdict{}, err
	}
	verdict, err := upgrade.Decide()
	if err != nil || verdict.Hold {
		return verdict, err
	}
	return o.keep(ctx, cluster, upgrade)
}

// keep promises to a Cluster, for its upgrade, the best that can be promised.
func (o Options) keep(ctx context.Context, cluster *clusterv1.Cluster, upgrade *Upgrade) (Verdict, error) {
	for _, request := range upgrade.Promises() {
		plan, err := o.Planner.Promise(ctx, cluster.UID, request)
		switch {
		case o.Contended != nil && errors.Is(err, o.Contended):
			return Verdict{Hold: true, Message: contended}, nil
		case err != nil || plan.Satisfied:
			return Verdict{}, err
		}
	}
	return Verdict{}, nil
}

// versions of a plan with the one that it leads to, each once.
func versions(steps []runtimehooksv1.UpgradeStepInfo, to string) []string {
	var out []string
	for _, step := range append(slices.Clone(steps), runtimehooksv1.UpgradeStepInfo{Version: to}) {
		if step.Version != "" && !slices.Contains(out, step.Version) {
			out = append(out, step.Version)
		}
	}
	return out
}

func (o Options) beforeClusterDelete(ctx context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest, answer *runtimehooksv1.BeforeClusterDeleteResponse) {
	verdict, err := o.remove(ctx, &request.Cluster)
	settle(ctx, answer, verdict, err)
}

// remove holds the deletion of a Cluster of Ingot's that is to be retained. One that
// was never built has nothing to retain.
func (o Options) remove(_ context.Context, cluster *clusterv1.Cluster) (Verdict, error) {
	if ours, _ := built(cluster); !ours {
		return Verdict{}, nil
	}
	return decideDelete(cluster), nil
}

func (o Options) generateUpgradePlan(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, answer *runtimehooksv1.GenerateUpgradePlanResponse) {
	plan, err := o.plan(ctx, request)
	for _, version := range plan {
		answer.ControlPlaneUpgrades = append(answer.ControlPlaneUpgrades, runtimehooksv1.UpgradeStep{Version: version})
	}
	settle(ctx, answer, Verdict{}, err)
}

// plan goes by way of versions that there is an image for, for every group of machines. A
// Cluster that takes no images of the catalogue goes in one step.
func (o Options) plan(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
	from, to := request.FromControlPlaneKubernetesVersion, request.ToKubernetesVersion
	if ours, _ := built(&request.Cluster); !ours {
		return oneStep(from, to), nil
	}
	wish, err := o.Inventory.wish(ctx, &request.Cluster)
	if err != nil {
		return nil, err
	}
	if wish == nil || !slices.ContainsFunc(wish.Groups, func(g Group) bool { return g.Image.Version != "" }) {
		return oneStep(from, to), nil
	}
	images, err := o.Inventory.Images(ctx)
	if err != nil {
		return nil, err
	}
	has := func(version string) bool { return len(missingImages(images, wish.Groups, []string{version})) == 0 }
	var known []string
	for i := range images {
		known = append(known, images[i].Spec.KubernetesVersion)
	}
	plan, err := upgradePlan(from, to, newestOf(known, has))
	if err != nil {
		return nil, tellable{err}
	}
	return plan, nil
}

// oneStep is what Cluster API does by itself.
func oneStep(from, to string) []string {
	if from == to {
		return nil
	}
	return []string{to}
}

func (o Options) afterControlPlaneInitialized(ctx context.Context, request *runtimehooksv1.AfterControlPlaneInitializedRequest, answer *runtimehooksv1.AfterControlPlaneInitializedResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonControlPlaneInitialized, "the API server of the cluster answers")
	settle(ctx, answer, Verdict{}, nil)
}

func (o Options) afterControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, answer *runtimehooksv1.AfterControlPlaneUpgradeResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonControlPlaneUpgraded, "all control planes run Kubernetes "+request.KubernetesVersion)
	settle(ctx, answer, Verdict{}, nil)
}

func (o Options) afterWorkersUpgrade(ctx context.Context, request *runtimehooksv1.AfterWorkersUpgradeRequest, answer *runtimehooksv1.AfterWorkersUpgradeResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonWorkersUpgraded, "all workers run Kubernetes "+request.KubernetesVersion)
	settle(ctx, answer, Verdict{}, nil)
}

func (o Options) afterClusterUpgrade(ctx context.Context, request *runtimehooksv1.AfterClusterUpgradeRequest, answer *runtimehooksv1.AfterClusterUpgradeResponse) {
	err := o.finish(ctx, &request.Cluster)
	if err == nil {
		o.record(ctx, &request.Cluster, infrav1.ReasonClusterUpgraded, "the cluster runs Kubernetes "+request.KubernetesVersion)
	}
	settle(ctx, answer, Verdict{}, err)
}

// record writes down what happened, as an event: told twice it counts twice and
// changes nothing (R17).
func (o Options) record(ctx context.Context, cluster *clusterv1.Cluster, reason, message string) {
	if ours, _ := built(cluster); !ours {
		return
	}
	ctrl.LoggerFrom(ctx).Info(message, "namespace", cluster.Namespace, "cluster", cluster.Name)
	o.Recorder.Eventf(cluster, nil, "Normal", reason, "Record", "%s", message)
}

// finish ends what was promised for an upgrade. Where that fails so does the hook, which
// may not ask for another call (L08): Cluster API makes one after a failure, and hosts are
// not kept for days from others who could have them.
func (o Options) finish(ctx context.Context, cluster *clusterv1.Cluster) error {
	if ours, _ := built(cluster); !ours {
		return nil
	}
	return o.Planner.Finish(ctx, cluster.UID, types.NamespacedName{Namespace: cluster.Namespace, Name: cluster.Name})
}

// tellable is an error whose text is for conditions.
type tellable struct{ error }

// Unwrap gives the error.
func (t tellable) Unwrap() error { return t.error }

// settle sets status, message and, where something is held, the time to ask again.
func settle(ctx context.Context, answer runtimehooksv1.ResponseObject, verdict Verdict, err error) {
	answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if err != nil {
		answer.SetStatus(runtimehooksv1.ResponseStatusFailure)
		answer.SetMessage(textOf(ctx, err))
		return
	}
	if !verdict.Hold {
		return
	}
	answer.SetMessage(verdict.Message)
	if retry, ok := answer.(runtimehooksv1.RetryResponseObject); ok {
		retry.SetRetryAfterSeconds(RetryAfterSeconds)
	}
}

// textOf is what a condition says of an error: the same for the same fault.
func textOf(ctx context.Context, err error) string {
	var t tellable
	if errors.As(err, &t) || errors.Is(err, allocation.ErrSelectorInvalid) {
		return err.Error()
	}
	if fault := refused(err); fault != "" {
		return "the topology asks for what cannot be promised: " + fault
	}
	ctrl.LoggerFrom(ctx).Error(err, "Failed to answer a hook")
	return errInventory.Error()
}

// refused says what is wrong with a reservation that the API server does not take, such
// as more groups than one can have: to ask again does not help. Empty: it is no such
// error. Of several faults the first tells; others may follow from it.
func refused(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	causes := status.Status().Details.Causes
	if len(causes) == 0 {
		return ""
	}
	return causes[0].Field + ": " + causes[0].Message
}

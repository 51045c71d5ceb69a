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
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/allocation"
)

// Planner reserves hosts.
type Planner interface {
	// Reserve reserves all requested hosts for the Cluster with the UID, or none: then the plan
	// describes the missing hosts. It is idempotent.
	Reserve(ctx context.Context, uid types.UID, request allocation.PlanRequest) (allocation.ReservationPlan, error)
	// EndUpgrade removes the reservation of a completed upgrade.
	EndUpgrade(ctx context.Context, uid types.UID, cluster types.NamespacedName) error
}

// Options configures the handlers.
type Options struct {
	Inventory Inventory
	Planner   Planner
	// Contended is the error of the Planner that disappears on a retry. nil: there is none.
	Contended error
	Recorder  events.EventRecorder
}

// nameUpgradePlan is the handler name in the ClusterClass ingot-runtime.
const nameUpgradePlan = "generate-upgrade-plan"

// errInventory replaces errors of the API server, to keep conditions stable (R22).
var errInventory = errors.New("Ingot cannot read the inventory; Cluster API retries the call")

const contended = "several Clusters are reserving hosts at the same time; Cluster API retries the call"

// Handlers returns the handlers of the lifecycle hooks. If the extension is unavailable, Cluster API
// waits for decisions (failure policy Fail), but not for hooks that only record an event (Ignore).
func Handlers(o Options) []server.ExtensionHandler {
	handler := func(hook runtimecatalog.Hook, name string, f runtimecatalog.Hook, policy runtimehooksv1.FailurePolicy) server.ExtensionHandler {
		return server.ExtensionHandler{
			Hook: hook, Name: name, HandlerFunc: f, FailurePolicy: &policy,
			TimeoutSeconds: ptr.To[int32](runtimehooksv1.DefaultHandlersTimeoutSeconds),
		}
	}
	// AfterClusterUpgrade has the policy Fail: a lost call would leave hosts reserved for days.
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
	verdict, err := o.decideCreate(ctx, &request.Cluster)
	setStatus(ctx, answer, verdict, err)
}

// decideCreate reserves the hosts of a Cluster when all its images exist.
func (o Options) decideCreate(ctx context.Context, cluster *clusterv1.Cluster) (Verdict, error) {
	if cluster.Spec.InfrastructureRef.IsDefined() && !isIngotCluster(cluster) || !cluster.Spec.Topology.IsDefined() {
		return Verdict{}, nil
	}
	want, err := o.Inventory.requirements(ctx, cluster)
	if err != nil || want == nil {
		return Verdict{}, err
	}
	images, err := o.Inventory.Images(ctx)
	if err != nil {
		return Verdict{}, err
	}
	if missing := missingImages(images, want.Groups, []string{cluster.Spec.Topology.Version}); len(missing) > 0 {
		return holdFor(missing), nil
	}
	plan, err := o.Planner.Reserve(ctx, cluster.UID, allocation.PlanRequest{
		Namespace: cluster.Namespace, ClusterName: cluster.Name, Cluster: want.Cluster, Demand: Demand(want.Groups, images),
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
	verdict, err := o.decideUpgrade(ctx, &request.Cluster, part{
		controlPlane: true, workers: true,
		controlPlaneSteps: upgradeVersions(request.ControlPlaneUpgrades, request.ToKubernetesVersion),
		workersSteps:      upgradeVersions(request.WorkersUpgrades, request.ToKubernetesVersion),
	})
	setStatus(ctx, answer, verdict, err)
}

func (o Options) beforeControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.BeforeControlPlaneUpgradeRequest, answer *runtimehooksv1.BeforeControlPlaneUpgradeResponse) {
	verdict, err := o.decideUpgrade(ctx, &request.Cluster, part{
		controlPlane: true, controlPlaneSteps: upgradeVersions(request.ControlPlaneUpgrades, request.ToKubernetesVersion),
	})
	setStatus(ctx, answer, verdict, err)
}

func (o Options) beforeWorkersUpgrade(ctx context.Context, request *runtimehooksv1.BeforeWorkersUpgradeRequest, answer *runtimehooksv1.BeforeWorkersUpgradeResponse) {
	verdict, err := o.decideUpgrade(ctx, &request.Cluster, part{
		workers: true, workersSteps: upgradeVersions(request.WorkersUpgrades, request.ToKubernetesVersion),
	})
	setStatus(ctx, answer, verdict, err)
}

// decideUpgrade holds an upgrade or reserves its hosts.
func (o Options) decideUpgrade(ctx context.Context, cluster *clusterv1.Cluster, p part) (Verdict, error) {
	if !isIngotCluster(cluster) || !cluster.Spec.Topology.IsDefined() {
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
	// Reserve as much as possible.
	for _, request := range upgrade.ReservationRequests() {
		plan, err := o.Planner.Reserve(ctx, cluster.UID, request)
		switch {
		case o.Contended != nil && errors.Is(err, o.Contended):
			return Verdict{Hold: true, Message: contended}, nil
		case err != nil || plan.Satisfied:
			return Verdict{}, err
		}
	}
	return Verdict{}, nil
}

// upgradeVersions returns the versions of an upgrade plan and its target without duplicates.
func upgradeVersions(steps []runtimehooksv1.UpgradeStepInfo, to string) []string {
	var out []string
	for _, step := range append(slices.Clone(steps), runtimehooksv1.UpgradeStepInfo{Version: to}) {
		if step.Version != "" && !slices.Contains(out, step.Version) {
			out = append(out, step.Version)
		}
	}
	return out
}

func (o Options) beforeClusterDelete(ctx context.Context, request *runtimehooksv1.BeforeClusterDeleteRequest, answer *runtimehooksv1.BeforeClusterDeleteResponse) {
	var verdict Verdict
	if isIngotCluster(&request.Cluster) {
		verdict = decideDelete(&request.Cluster)
	}
	setStatus(ctx, answer, verdict, nil)
}

func (o Options) generateUpgradePlan(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest, answer *runtimehooksv1.GenerateUpgradePlanResponse) {
	plan, err := o.plan(ctx, request)
	for _, version := range plan {
		answer.ControlPlaneUpgrades = append(answer.ControlPlaneUpgrades, runtimehooksv1.UpgradeStep{Version: version})
	}
	setStatus(ctx, answer, Verdict{}, err)
}

// plan returns the versions of an upgrade for which every group of machines has an image. A Cluster
// that uses no images of the catalog upgrades in one step.
func (o Options) plan(ctx context.Context, request *runtimehooksv1.GenerateUpgradePlanRequest) ([]string, error) {
	from, to := request.FromControlPlaneKubernetesVersion, request.ToKubernetesVersion
	if !isIngotCluster(&request.Cluster) {
		return oneStep(from, to), nil
	}
	want, err := o.Inventory.requirements(ctx, &request.Cluster)
	if err != nil {
		return nil, err
	}
	if want == nil || !slices.ContainsFunc(want.Groups, func(g Group) bool { return g.Image.Version != "" }) {
		return oneStep(from, to), nil
	}
	images, err := o.Inventory.Images(ctx)
	if err != nil {
		return nil, err
	}
	has := func(version string) bool { return len(missingImages(images, want.Groups, []string{version})) == 0 }
	var known []string
	for i := range images {
		known = append(known, images[i].Spec.KubernetesVersion)
	}
	plan, err := upgradePlan(from, to, newestOf(known, has))
	if err != nil {
		return nil, userError{err}
	}
	return plan, nil
}

// oneStep returns the plan that Cluster API would use without this hook.
func oneStep(from, to string) []string {
	if from == to {
		return nil
	}
	return []string{to}
}

func (o Options) afterControlPlaneInitialized(ctx context.Context, request *runtimehooksv1.AfterControlPlaneInitializedRequest, answer *runtimehooksv1.AfterControlPlaneInitializedResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonControlPlaneInitialized, "The API server of the cluster is available.")
	setStatus(ctx, answer, Verdict{}, nil)
}

func (o Options) afterControlPlaneUpgrade(ctx context.Context, request *runtimehooksv1.AfterControlPlaneUpgradeRequest, answer *runtimehooksv1.AfterControlPlaneUpgradeResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonControlPlaneUpgraded, "All control plane machines run Kubernetes "+request.KubernetesVersion+".")
	setStatus(ctx, answer, Verdict{}, nil)
}

func (o Options) afterWorkersUpgrade(ctx context.Context, request *runtimehooksv1.AfterWorkersUpgradeRequest, answer *runtimehooksv1.AfterWorkersUpgradeResponse) {
	o.record(ctx, &request.Cluster, infrav1.ReasonWorkersUpgraded, "All workers run Kubernetes "+request.KubernetesVersion+".")
	setStatus(ctx, answer, Verdict{}, nil)
}

func (o Options) afterClusterUpgrade(ctx context.Context, request *runtimehooksv1.AfterClusterUpgradeRequest, answer *runtimehooksv1.AfterClusterUpgradeResponse) {
	var err error
	if isIngotCluster(&request.Cluster) {
		// The response cannot request a retry (L08), but Cluster API retries after a failure.
		err = o.Planner.EndUpgrade(ctx, request.Cluster.UID, client.ObjectKeyFromObject(&request.Cluster))
	}
	if err == nil {
		o.record(ctx, &request.Cluster, infrav1.ReasonClusterUpgraded, "The cluster runs Kubernetes "+request.KubernetesVersion+".")
	}
	setStatus(ctx, answer, Verdict{}, err)
}

// record emits an event. A repeated call only increases its count (R17).
func (o Options) record(ctx context.Context, cluster *clusterv1.Cluster, reason, message string) {
	if !isIngotCluster(cluster) {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Recorded a Cluster lifecycle event", "cluster", client.ObjectKeyFromObject(cluster), "reason", reason, "message", message)
	o.Recorder.Eventf(cluster, nil, "Normal", reason, "Record", "%s", message)
}

// userError is an error whose text is shown in conditions.
type userError struct{ error }

// Unwrap returns the wrapped error.
func (e userError) Unwrap() error { return e.error }

// setStatus sets status and message and, if the verdict holds, the retry interval.
func setStatus(ctx context.Context, answer runtimehooksv1.ResponseObject, verdict Verdict, err error) {
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

// textOf returns the stable text of an error for a condition.
func textOf(ctx context.Context, err error) string {
	var user userError
	if errors.As(err, &user) || errors.Is(err, allocation.ErrSelectorInvalid) {
		return err.Error()
	}
	if fault := invalidReservation(err); fault != "" {
		return "Ingot cannot create the IngotReservation for this topology: " + fault
	}
	ctrl.LoggerFrom(ctx).Error(err, "Failed to handle a hook call")
	return errInventory.Error()
}

// invalidReservation returns the first cause of an API server error about an invalid reservation,
// such as too many groups, which a retry does not fix. It returns "" for other errors.
func invalidReservation(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return ""
	}
	for _, cause := range status.Status().Details.Causes {
		return cause.Field + ": " + cause.Message
	}
	return ""
}

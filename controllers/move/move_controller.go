// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=list;watch;patch

// retry is how soon a host is looked at again that somebody else wrote meanwhile.
const retry = time.Second

// Reconciler keeps the annotations of a namespace's hosts, and of their IPAddressClaims. All fields but the last
// two are needed.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.PassiveClock
	// Rest is how long a host that has arrived by a move, and at which work is due,
	// stands still at least; 0: not at all. See DefaultRest.
	Rest time.Duration
	// WatchFilterValue selects the hosts by label.
	WatchFilterValue string

	resting restings
}

// Reconcile looks at all hosts of the namespace that the request names.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	p := &pass{Reconciler: r, namespace: req.Name, written: map[Change]int{}}
	var err error
	if p.state, p.cluster, err = stateOf(ctx, r.Client, p.namespace); err != nil {
		return ctrl.Result{}, err
	}
	if p.claims, err = (pool.Pools{Client: r.Client}).OfHosts(ctx, p.namespace); err != nil {
		return ctrl.Result{}, err
	}
	hosts := &infrav1.IngotHostList{}
	// Thousands of hosts are looked at and few are changed: those are copied.
	if err := r.Client.List(ctx, hosts, client.InNamespace(p.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("hosts of namespace %s: %w", p.namespace, err)
	}
	// A server at work comes before thousands that are at rest anyway.
	for _, atWork := range []bool{true, false} {
		for i := range hosts.Items {
			if host := &hosts.Items[i]; (host.Spec.Order != nil) == atWork {
				if err := p.visit(ctx, host); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
	}
	for change, n := range p.written {
		ctrl.LoggerFrom(ctx).Info("Hosts of the namespace stand still or go on", "namespace", p.namespace, "clusters", p.state, "hosts", n, "change", change)
	}
	if p.again {
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	if p.rest == 0 {
		r.resting.end(p.namespace)
	}
	return ctrl.Result{RequeueAfter: p.rest}, nil
}

// pass is one look at all hosts of a namespace.
type pass struct {
	*Reconciler
	namespace string
	state     State
	// cluster is one of those that stand still, or empty.
	cluster string
	// claims of the hosts for addresses of pools, which stand still with them.
	claims pool.HostClaims
	// confirmed: a live read has shown the state as well.
	confirmed bool
	written   map[Change]int
	// again: somebody wrote meanwhile, or the cache lags.
	again bool
	// rest is when the next host will have rested; 0: none does.
	rest time.Duration
}

// visit changes one host if it needs that.
func (p *pass) visit(ctx context.Context, host *infrav1.IngotHost) error {
	change, rest, err := p.decide(ctx, host, p.state)
	if rest > 0 && (p.rest == 0 || rest < p.rest) {
		p.rest = rest
	}
	if err != nil {
		return err
	}
	if change.Lift && !p.confirmed {
		// A move may have begun again a moment ago: only a live read may lift.
		live, _, err := stateOf(ctx, p.Live, p.namespace)
		if err != nil {
			return err
		}
		if live != p.state {
			p.again = true
			return nil
		}
		p.confirmed = true
	}
	settled, err := p.settle(ctx, host, change)
	if err != nil {
		return err
	}
	if !settled {
		p.again = true
		return nil
	}
	if change.IsZero() {
		return nil
	}
	written, err := p.write(ctx, host, change)
	if written {
		p.written[change]++
	} else {
		p.again = true
	}
	return err
}

// stateOf reads the Clusters of a namespace; where all stand still it names one, always
// the same.
func stateOf(ctx context.Context, reader client.Reader, namespace string) (state State, cluster string, _ error) {
	clusters := &clusterv1.ClusterList{}
	if err := reader.List(ctx, clusters, client.InNamespace(namespace)); err != nil {
		return "", "", fmt.Errorf("clusters of namespace %s: %w", namespace, err)
	}
	state = StateOf(clusters.Items)
	for i := range clusters.Items {
		if name := clusters.Items[i].Name; state == Standstill && (cluster == "" || name < cluster) {
			cluster = name
		}
	}
	return state, cluster, nil
}

// decide gathers what Decide asks for. rest is for how long the answer depends on
// the time; 0: it does not.
func (r *Reconciler) decide(ctx context.Context, host *infrav1.IngotHost, state State) (change Change, rest time.Duration, err error) {
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return Change{}, 0, nil
	}
	ready := true
	if Decide(host, state, true).Lift {
		if needsMachine(host) {
			ready, err = r.resolves(ctx, host)
		}
		if err != nil || !ready {
			return Change{}, 0, err
		}
		rest = r.rests(host)
		ready = rest == 0
	}
	return Decide(host, state, ready), rest, nil
}

// resolves says whether the machine that the claim names is here and names this host
// and instance in turn. What a cache shows of that stays so.
func (r *Reconciler) resolves(ctx context.Context, host *infrav1.IngotHost) (bool, error) {
	claim := host.Spec.Claim
	machine := &infrav1.IngotMachine{}
	key := client.ObjectKey{Namespace: host.Namespace, Name: claim.MachineRef.Name}
	if err := r.Client.Get(ctx, key, machine); err != nil {
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return false, fmt.Errorf("machine %s of the claim: %w", key, err)
	}
	id := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}
	return machine.Spec.ProviderID == id.String(), nil
}

// write changes a host's annotations on the version that was decided on; false when
// there is a newer one.
func (r *Reconciler) write(ctx context.Context, host *infrav1.IngotHost, change Change) (bool, error) {
	next := host.DeepCopy()
	next.Annotations = change.Apply(host.Annotations, r.Clock.Now())
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("annotations of host %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return true, nil
}

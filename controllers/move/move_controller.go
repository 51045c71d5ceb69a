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
	"github.com/ingot-metal/ingot/internal/kubeutil"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=ipam.cluster.x-k8s.io,resources=ipaddressclaims,verbs=list;watch;patch

// retry is the delay after a conflict.
const retry = time.Second

// Reconciler maintains the annotations of a namespace's hosts and of their IPAddressClaims. Client,
// Live and Clock are required.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server.
	Live  client.Reader
	Clock clock.PassiveClock
	// Rest is how long a host that arrived by a move with pending work stays paused; 0: no
	// longer than other hosts. See DefaultRest.
	Rest time.Duration
	// WatchFilterValue selects hosts by label; empty: all.
	WatchFilterValue string

	arrivals restStarts
}

// Reconcile checks all hosts of the namespace req.Name.
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
	// Only the few hosts that change are copied.
	if err := r.Client.List(ctx, hosts, client.InNamespace(p.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list hosts of namespace %s: %w", p.namespace, err)
	}
	// Hosts with work in progress come before thousands that are idle.
	for _, busy := range []bool{true, false} {
		for i := range hosts.Items {
			if host := &hosts.Items[i]; (host.Spec.Order != nil) == busy {
				if err := p.visit(ctx, host); err != nil {
					return ctrl.Result{}, err
				}
			}
		}
	}
	for change, n := range p.written {
		ctrl.LoggerFrom(ctx).Info("Changed the move annotations of hosts", "namespace", p.namespace, "clusters", p.state, "hosts", n, "change", change)
	}
	if p.again {
		return ctrl.Result{RequeueAfter: retry}, nil
	}
	if p.rest == 0 {
		r.arrivals.end(p.namespace)
	}
	return ctrl.Result{RequeueAfter: p.rest}, nil
}

// pass is one check of all hosts of a namespace.
type pass struct {
	*Reconciler
	namespace string
	state     State
	// cluster is a paused Cluster if all are paused; else empty.
	cluster string
	// claims are the hosts' IPAddressClaims.
	claims pool.HostClaims
	// confirmed: a live read confirmed the state.
	confirmed bool
	written   map[Change]int
	// again: a conflict, or the cache lags.
	again bool
	// rest is the time until the next rest ends; 0: no host rests.
	rest time.Duration
}

// visit changes one host if necessary.
func (p *pass) visit(ctx context.Context, host *infrav1.IngotHost) error {
	change, rest, err := p.decide(ctx, host, p.state)
	if rest > 0 && (p.rest == 0 || rest < p.rest) {
		p.rest = rest
	}
	if err != nil {
		return err
	}
	if change.Lift && !p.confirmed {
		// A new move may just have started: only a live read may end the pause.
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
	done, err := p.pauseClaims(ctx, host, change)
	if err != nil {
		return err
	}
	if done && change != (Change{}) {
		if done, err = p.write(ctx, host, change); done {
			p.written[change]++
		}
	}
	p.again = p.again || !done
	return err
}

// stateOf reads the Clusters of a namespace. If all are paused it also returns the first by name.
func stateOf(ctx context.Context, reader client.Reader, namespace string) (state State, cluster string, _ error) {
	clusters := &clusterv1.ClusterList{}
	if err := reader.List(ctx, clusters, client.InNamespace(namespace)); err != nil {
		return "", "", fmt.Errorf("list Clusters of namespace %s: %w", namespace, err)
	}
	state = StateOf(clusters.Items)
	for i := range clusters.Items {
		if name := clusters.Items[i].Name; state == AllPaused && (cluster == "" || name < cluster) {
			cluster = name
		}
	}
	return state, cluster, nil
}

// decide gathers the input of Decide. rest is the time until the result may change; 0: never.
func (r *Reconciler) decide(ctx context.Context, host *infrav1.IngotHost, state State) (change Change, rest time.Duration, err error) {
	if r.WatchFilterValue != "" && !labels.HasWatchLabel(host, r.WatchFilterValue) {
		return Change{}, 0, nil
	}
	ready := true
	if Decide(host, state, true).Lift {
		if needsMachine(host) {
			ready, err = r.hasMachine(ctx, host)
		}
		if err != nil || !ready {
			return Change{}, 0, err
		}
		rest = r.remainingRest(host)
		ready = rest == 0
	}
	return Decide(host, state, ready), rest, nil
}

// hasMachine reports whether the claim's machine exists and names this host and instance. The cache
// is sufficient: a positive result stays true.
func (r *Reconciler) hasMachine(ctx context.Context, host *infrav1.IngotHost) (bool, error) {
	claim := host.Spec.Claim
	machine, err := kubeutil.Find[infrav1.IngotMachine](ctx, r.Client, host.Namespace, claim.MachineRef.Name)
	if err != nil || machine == nil {
		return false, err
	}
	id := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}
	return machine.Spec.ProviderID == id.String(), nil
}

// write changes a host's annotations by optimistic lock. It returns false after a conflict.
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
		return false, fmt.Errorf("write annotations of host %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return true, nil
}

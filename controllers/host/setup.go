// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/internal/kubeutil"
	"github.com/ingot-metal/ingot/internal/networkuse"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe/collect"
)

// SetupWithManager registers the reconciler. The indexes of package index must exist.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	if err := mgr.Add(&r.memory.jobs); err != nil {
		return err
	}
	log := mgr.GetLogger().WithValues("controller", "ingothost")
	b := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.IngotHost{}, builder.WithPredicates(specChanged(), predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilterValue))).
		Owns(&infrav1.IngotHardware{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.IngotHost{}, r.duplicatesOfHost(), builder.WithPredicates(identityChanged())).
		Watches(&infrav1.IngotHardware{}, r.duplicatesOfHardware(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Secret{}, r.hostsBy(index.HostByCredentials), builder.WithPredicates(dataChanged())).
		Watches(&corev1.Secret{}, r.hostsBy(index.HostByCASecret), builder.WithPredicates(dataChanged())).
		Watches(&corev1.ConfigMap{}, r.hostsBy(index.HostByCABundle), builder.WithPredicates(dataChanged())).
		Watches(&infrav1.IngotMachine{}, r.hostsBy(index.HostByMachine), builder.WithPredicates(claimAnswered())).
		Watches(&infrav1.IngotNetwork{}, r.hostsByNetwork(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(networkuse.Namespace(), r.hostsOfNamespace(), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, r.hostsOfCluster(), builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(source.Func(r.setQueue)).
		WithOptions(options)
	if pool.Installed(mgr.GetRESTMapper()) { // if the IPAM CRDs are installed later, polls notice claims
		b = b.Owns(&ipamv1.IPAddressClaim{})
	}
	return b.Complete(r)
}

// specChanged passes changes of spec, labels, annotations and deletion. It blocks the agent's
// progress in status, which changes no decision.
func specChanged() predicate.Predicate {
	return predicate.Or(
		predicate.GenerationChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
		predicate.LabelChangedPredicate{},
		kubeutil.OnUpdate(func(_, host *infrav1.IngotHost) bool { return host.Status.Phase == "" }), // refill a lost status at once
	)
}

// claimAnswered passes machines whose provider ID or deletion changed.
func claimAnswered() predicate.Predicate {
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotMachine) bool {
		return before.Spec.ProviderID != after.Spec.ProviderID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	})
}

// dataChanged blocks changes of labels and owners: hundreds of hosts may share a Secret, and
// each of them becomes an owner.
func dataChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		switch after := e.ObjectNew.(type) {
		case *corev1.Secret:
			before, ok := e.ObjectOld.(*corev1.Secret)
			return !ok || !equality.Semantic.DeepEqual(before.Data, after.Data)
		case *corev1.ConfigMap:
			before, ok := e.ObjectOld.(*corev1.ConfigMap)
			return !ok || !equality.Semantic.DeepEqual(before.Data, after.Data)
		}
		return true
	}}
}

// identityChanged passes changes after which a host may start or stop being a duplicate.
func identityChanged() predicate.Predicate {
	address := func(host *infrav1.IngotHost) string { // with the path: one BMC may manage several systems
		if host.Spec.BMC == nil {
			return ""
		}
		return host.Spec.BMC.Address
	}
	return kubeutil.OnUpdate(func(before, after *infrav1.IngotHost) bool {
		return before.Spec.BootMACAddress != after.Spec.BootMACAddress || address(before) != address(after) ||
			isEnrolled(before) != isEnrolled(after) || isMovingAway(before) != isMovingAway(after) ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
	})
}

func (r *Reconciler) duplicatesOfHost() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		host, ok := o.(*infrav1.IngotHost)
		if !ok {
			return nil
		}
		hardware := &infrav1.IngotHardware{}
		err := r.Client.Get(ctx, keyOf(host), hardware)
		if err != nil {
			hardware = nil
		}
		var duplicates, byName []*infrav1.IngotHost
		if client.IgnoreNotFound(err) == nil {
			duplicates, err = r.duplicates(ctx, host, hardware)
		}
		if err == nil {
			byName, err = r.sameBMCByName(ctx, host)
		}
		return requestsFor(ctx, append(duplicates, byName...), err)
	})
}

func (r *Reconciler) duplicatesOfHardware() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		hardware, ok := o.(*infrav1.IngotHardware)
		if !ok {
			return nil
		}
		duplicates, err := r.sameSystem(ctx, hardware)
		return requestsFor(ctx, duplicates, err)
	})
}

func requestsFor(ctx context.Context, hosts []*infrav1.IngotHost, err error) []reconcile.Request {
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to find duplicates of a host")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(hosts))
	for _, host := range hosts {
		requests = append(requests, reconcile.Request{NamespacedName: keyOf(host)})
	}
	return requests
}

// hostsBy maps an object to the hosts that refer to it, by index.
func (r *Reconciler) hostsBy(field string) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.MatchingFields{field: o.GetNamespace() + "/" + o.GetName()})
	})
}

func (r *Reconciler) hostsByNetwork() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.MatchingFields{index.HostByNetwork: o.GetName()})
	})
}

// hostsOfNamespace maps a namespace to its hosts: networks allow namespaces by label.
func (r *Reconciler) hostsOfNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.Requests(ctx, r.Client, &infrav1.IngotHostList{}, client.InNamespace(o.GetName()))
	})
}

// hostsOfCluster maps a Cluster to the hosts that its machines claim.
func (r *Reconciler) hostsOfCluster() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
		return index.RequestsIf(ctx, r.Client, &infrav1.IngotHostList{}, func(host *infrav1.IngotHost) bool {
			return host.Spec.Claim != nil && host.Spec.Claim.ClusterName == o.GetName()
		}, client.InNamespace(o.GetNamespace()))
	})
}

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// setQueue is a source of the controller that stores the queue for Heard.
func (r *Reconciler) setQueue(_ context.Context, queue requestQueue) error {
	r.queue.Store(&queue)
	return nil
}

// HandleBMCEvent handles a report of a BMC's event stream. An event triggers a reconcile at once. The
// end of a stream triggers one at a random time within a poll interval: when a network
// breaks, all streams end at the same moment.
func (r *Reconciler) HandleBMCEvent(key string, kind bmc.WatchEventKind) {
	queue := r.queue.Load()
	namespace, name, ok := strings.Cut(key, string(types.Separator))
	if queue == nil || !ok {
		return
	}
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	switch kind {
	case bmc.WatchChanged:
		(*queue).Add(request)
	case bmc.WatchEnded:
		(*queue).AddAfter(request, rand.N(max(r.Poll, 1)))
	case bmc.WatchStarted:
	}
}

// watch opens the event stream of the host's BMC. Duplicates get no stream: they would take
// the single stream from each other.
func (r *Reconciler) watch(host *infrav1.IngotHost, seen *observation) {
	switch {
	case host.Spec.BMC == nil, seen.Deleting, seen.DuplicateOf != "", seen.BMC == lifecycle.BMCCredentialsMissing, seen.BMC == lifecycle.BMCCAMissing:
		r.unwatch(keyOf(host))
	case r.Watches != nil && seen.BMC == lifecycle.BMCOK:
		r.Watches.Want(keyOf(host).String(), seen.target)
	}
}

func (r *Reconciler) unwatch(host types.NamespacedName) {
	if r.Watches != nil {
		r.Watches.Drop(host.String())
	}
}

var (
	hostsOfPhase = prometheus.NewDesc("ingot_hosts",
		"Hosts, by namespace and phase.", []string{"namespace", "phase"}, nil)
	hostsOfCondition = prometheus.NewDesc("ingot_host_conditions",
		"Hosts that have a condition, by namespace, type, status and reason.", []string{"namespace", "type", "status", "reason"}, nil)
)

// Census counts hosts at each Prometheus scrape: by phase, and by state of each condition.
// The number of series does not grow with the number of hosts.
type Census struct {
	hosts client.Reader
	leads atomic.Bool
}

// NewCensus registers the gauges and replaces those of an earlier manager in this process.
// hosts should be a cache: it is read at each scrape.
func NewCensus(hosts client.Reader, registry prometheus.Registerer) (*Census, error) {
	c := &Census{hosts: hosts}
	if err := collect.Replace(registry, c); err != nil {
		return nil, fmt.Errorf("metrics of hosts: %w", err)
	}
	return c, nil
}

// Start implements manager.Runnable. The manager runs it while it leads. Otherwise each
// replica would count all hosts.
func (c *Census) Start(ctx context.Context) error {
	c.leads.Store(true)
	<-ctx.Done()
	c.leads.Store(false)
	return nil
}

// Describe implements prometheus.Collector.
func (c *Census) Describe(out chan<- *prometheus.Desc) {
	out <- hostsOfPhase
	out <- hostsOfCondition
}

// Collect implements prometheus.Collector.
func (c *Census) Collect(out chan<- prometheus.Metric) {
	if !c.leads.Load() {
		return
	}
	hosts := &infrav1.IngotHostList{}
	if err := c.hosts.List(context.Background(), hosts, client.UnsafeDisableDeepCopy); err != nil { // read-only
		out <- prometheus.NewInvalidMetric(hostsOfPhase, err)
		return
	}
	phases, states := map[[2]string]int{}, map[[4]string]int{}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		// Other phases report 0: an alert on "no host Available" needs a series.
		for _, phase := range infrav1.HostPhases {
			phases[[2]string{host.Namespace, string(phase)}] += 0
		}
		phases[[2]string{host.Namespace, string(host.Status.Phase)}]++
		for _, c := range host.Status.Conditions {
			states[[4]string{host.Namespace, c.Type, string(c.Status), c.Reason}]++
		}
	}
	for labels, count := range phases {
		out <- prometheus.MustNewConstMetric(hostsOfPhase, prometheus.GaugeValue, float64(count), labels[:]...)
	}
	for labels, count := range states {
		out <- prometheus.MustNewConstMetric(hostsOfCondition, prometheus.GaugeValue, float64(count), labels[:]...)
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/hooks"
)

// The load, and the bar.
const (
	loadHosts  = 5000
	loadPerSec = 200
	loadFor    = time.Minute
	loadBar    = 100 * time.Millisecond
	// loadCreates is the part of the calls that ask for hosts for a new Cluster: one in so
	// many, which promises 720 of the hosts in a minute.
	loadCreates = 50
)

// TestLoad is a measurement: 5,000 hosts in the cache, 200 calls of all sorts per second
// for a minute over TLS, promises to new Clusters among them. It prints what came of it;
// what it asserts is that each call is answered, and rightly.
//
//	make bench-hooks
func TestLoad(t *testing.T) {
	if os.Getenv("INGOT_BENCH_HOOKS") == "" {
		t.Skip("set INGOT_BENCH_HOOKS=1, as make bench-hooks does")
	}
	p := hooks.StartPlane(t)
	p.Namespace(t, "dc1", loadHosts)
	r := hooks.StartReplica(t, p.Kubeconfig)
	mix := calls()
	for _, call := range mix { // each once: connections, and what the first of a kind costs
		must(t, call.do(t.Context(), r, 0))
	}
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var all []time.Duration
	var answered sync.WaitGroup
	ticker := time.NewTicker(time.Second / loadPerSec)
	defer ticker.Stop()
	for i := range loadPerSec * int(loadFor/time.Second) {
		<-ticker.C
		call := mix[i%len(mix)]
		if i%loadCreates == 0 {
			call = newCluster
		}
		answered.Go(func() {
			began := time.Now()
			if err := call.do(t.Context(), r, i); err != nil {
				t.Errorf("call %d, %s: %v", i, call.name, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			took[call.name] = append(took[call.name], time.Since(began))
			all = append(all, time.Since(began))
		})
	}
	answered.Wait()
	for name, list := range took {
		fmt.Printf("bench: hooks %s p50 %s p99 %s of %d\n", name, quantile(list, .5), quantile(list, .99), len(list))
	}
	cpu, memory := r.Used()
	fmt.Printf("bench: hooks replica used %s of CPU and %d MiB of memory in all\n", cpu.Round(time.Millisecond), memory>>20)
	fmt.Printf("bench: hooks p99 %s bar %s, of %d calls at %d per second with %d hosts\n", quantile(all, .99), loadBar, len(all), loadPerSec, loadHosts)
}

func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[min(len(list)-1, int(float64(len(list))*q))].Round(10 * time.Microsecond)
}

// call is one sort of call.
type call struct {
	name string
	do   func(ctx context.Context, r *hooks.Replica, i int) error
}

// newCluster asks for three hosts for a Cluster that was not there before.
var newCluster = call{"BeforeClusterCreate of a new Cluster", func(ctx context.Context, r *hooks.Replica, i int) error {
	answer, err := create(ctx, r, "dc1", fmt.Sprintf("c%d", i))
	if err == nil && (answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds != 0) {
		err = fmt.Errorf("%s, %d s: %s", answer.Status, answer.RetryAfterSeconds, answer.Message)
	}
	return err
}}

func built(name string) clusterv1.Cluster {
	c := hooks.Topology("dc1", name, 2)
	c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: "IngotCluster", Name: name}
	return c
}

// calls are the others: what Cluster API asks of a fleet that lives.
func calls() []call {
	ok := func(status runtimehooksv1.ResponseStatus, message string, err error) error {
		if err == nil && status != runtimehooksv1.ResponseStatusSuccess {
			err = fmt.Errorf("%s: %s", status, message)
		}
		return err
	}
	template := runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachineTemplate","spec":{"template":{"spec":{"image":{"url":"https://images.example/os","checksum":"` + sum + `"}}}}}`)}
	machine := runtime.RawExtension{Raw: []byte(`{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachine","metadata":{"namespace":"dc1","name":"m"},"spec":{"providerID":""}}`)}
	return []call{
		{"BeforeClusterCreate asked again", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a, err := create(ctx, r, "dc1", "c0")
			return ok(a.Status, a.Message, err)
		}},
		{"BeforeClusterCreate that is held", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.BeforeClusterCreateResponse{}
			err := r.Ask(ctx, "BeforeClusterCreate", "before-cluster-create", &runtimehooksv1.BeforeClusterCreateRequest{Cluster: hooks.Topology("dc1", "huge", 2*loadHosts)}, a)
			if err == nil && a.Status == runtimehooksv1.ResponseStatusSuccess && a.RetryAfterSeconds == 0 {
				err = fmt.Errorf("a Cluster of more hosts than there are is let go: %+v", a)
			}
			return ok(a.Status, a.Message, err)
		}},
		{"BeforeClusterUpgrade", func(ctx context.Context, r *hooks.Replica, i int) error {
			a := &runtimehooksv1.BeforeClusterUpgradeResponse{}
			err := r.Ask(ctx, "BeforeClusterUpgrade", "before-cluster-upgrade", &runtimehooksv1.BeforeClusterUpgradeRequest{Cluster: built(fmt.Sprintf("c%d", i)), FromKubernetesVersion: "v1.36.1", ToKubernetesVersion: "v1.37.0"}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"AfterClusterUpgrade", func(ctx context.Context, r *hooks.Replica, i int) error {
			a := &runtimehooksv1.AfterClusterUpgradeResponse{}
			err := r.Ask(ctx, "AfterClusterUpgrade", "after-cluster-upgrade", &runtimehooksv1.AfterClusterUpgradeRequest{Cluster: built(fmt.Sprintf("none%d", i)), KubernetesVersion: "v1.37.0"}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"BeforeClusterDelete", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.BeforeClusterDeleteResponse{}
			err := r.Ask(ctx, "BeforeClusterDelete", "before-cluster-delete", &runtimehooksv1.BeforeClusterDeleteRequest{Cluster: built("c0")}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"GenerateUpgradePlan", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.GenerateUpgradePlanResponse{}
			err := r.Ask(ctx, "GenerateUpgradePlan", "generate-upgrade-plan", &runtimehooksv1.GenerateUpgradePlanRequest{Cluster: built("c0"), FromControlPlaneKubernetesVersion: "v1.36.1", ToKubernetesVersion: "v1.37.0"}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"ValidateTopology", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.ValidateTopologyResponse{}
			err := r.Ask(ctx, "ValidateTopology", "validate-topology", &runtimehooksv1.ValidateTopologyRequest{Items: []*runtimehooksv1.ValidateTopologyRequestItem{{Object: template}}}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"DiscoverVariables", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.DiscoverVariablesResponse{}
			err := r.Ask(ctx, "DiscoverVariables", "discover-variables", &runtimehooksv1.DiscoverVariablesRequest{}, a)
			return ok(a.Status, a.Message, err)
		}},
		{"UpdateMachine", func(ctx context.Context, r *hooks.Replica, _ int) error {
			a := &runtimehooksv1.UpdateMachineResponse{}
			err := r.AskInPlace(ctx, "UpdateMachine", "update-machine", &runtimehooksv1.UpdateMachineRequest{Desired: runtimehooksv1.UpdateMachineRequestObjects{InfrastructureMachine: machine}}, a)
			return ok(a.Status, a.Message, err)
		}},
	}
}

const sum = "sha256:abababababababababababababababababababababababababababababababab"

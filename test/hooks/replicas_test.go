// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/hooks"
)

func TestMain(m *testing.M) {
	hooks.RunReplica()
	os.Exit(m.Run())
}

// seeds of the race, and of the kills.
const (
	races = 20
	kills = 4
)

// TestReplicas is of two replicas of the extension, as processes, at one API server.
func TestReplicas(t *testing.T) {
	p := hooks.StartPlane(t)
	pair := &pair{Plane: p}
	pair.a, pair.b = hooks.StartReplica(t, p.Kubeconfig), hooks.StartReplica(t, p.Kubeconfig)
	t.Run("race", pair.testRace)
	t.Run("kill", pair.testKill)
}

type pair struct {
	*hooks.Plane
	a, b *hooks.Replica
}

// create asks as Cluster API does before it creates a Cluster of three machines.
func create(ctx context.Context, r *hooks.Replica, namespace, name string) (*runtimehooksv1.BeforeClusterCreateResponse, error) {
	answer := &runtimehooksv1.BeforeClusterCreateResponse{}
	err := r.Ask(ctx, "BeforeClusterCreate", "before-cluster-create", &runtimehooksv1.BeforeClusterCreateRequest{Cluster: hooks.Topology(namespace, name, 2)}, answer)
	return answer, err
}

// seen waits until a replica's cache has the three hosts of a namespace: of four machines
// it says that one is missing, for which nothing is written.
func seen(t *testing.T, r *hooks.Replica, namespace string) {
	t.Helper()
	eventually.Wait{}.Until(t, "the hosts of "+namespace, func(ctx context.Context) (string, error) {
		answer := &runtimehooksv1.BeforeClusterCreateResponse{}
		err := r.Ask(ctx, "BeforeClusterCreate", "before-cluster-create", &runtimehooksv1.BeforeClusterCreateRequest{Cluster: hooks.Topology(namespace, "probe", 3)}, answer)
		if err == nil && strings.HasPrefix(answer.Message, "1 host is missing") {
			return "", nil
		}
		return fmt.Sprintf("the answer is %+v", answer), err
	})
}

// Two Clusters want the last three hosts, through both replicas at once: one is promised
// all of them, the other waits and hears why.
func (p *pair) testRace(t *testing.T) {
	won := map[string]int{}
	for seed := range uint64(races) {
		namespace := fmt.Sprintf("race-%d", seed)
		p.Namespace(t, namespace, 3)
		seen(t, p.a, namespace)
		seen(t, p.b, namespace)
		last := map[string]*runtimehooksv1.BeforeClusterCreateResponse{}
		var mu sync.Mutex
		var asking sync.WaitGroup
		names := []string{"x", "y"}
		if seed%2 == 1 {
			names = []string{"y", "x"}
		}
		for i, name := range names {
			lot := rand.New(rand.NewPCG(seed, uint64(i))) // drawn again from the same seed
			asking.Go(func() {
				for range 6 { // as Cluster API asks again, whichever replica the Service leads to
					time.Sleep(time.Duration(lot.IntN(4)) * time.Millisecond)
					r := []*hooks.Replica{p.a, p.b}[lot.IntN(2)]
					answer, err := create(t.Context(), r, namespace, name)
					if err != nil || answer.Status != runtimehooksv1.ResponseStatusSuccess {
						t.Errorf("seed %d: %s hears %+v, %v", seed, name, answer, err)
						return
					}
					mu.Lock()
					if before := last[name]; before != nil && before.RetryAfterSeconds == 0 && answer.RetryAfterSeconds != 0 {
						t.Errorf("seed %d: %s was let go, and hears %s", seed, name, answer.Message)
					}
					last[name] = answer
					mu.Unlock()
				}
			})
		}
		asking.Wait()
		if t.Failed() {
			return
		}
		winner, loser := p.outcome(t, namespace)
		won[winner]++
		for _, r := range []*hooks.Replica{p.a, p.b} {
			p.hears(t, r, namespace, winner, "")
			p.hears(t, r, namespace, loser, "3 hosts are missing: ")
			p.hears(t, r, namespace, loser, "of 3 hosts that suit 3 are free, but 3 of these are reserved for other Clusters")
		}
	}
	t.Logf("won: %v", won)
}

// outcome is who was promised the hosts of a namespace: one of x and y. Whoever lost his
// turn while both asked is asked for again.
func (p *pair) outcome(t *testing.T, namespace string) (winner, loser string) {
	t.Helper()
	for i := range 20 {
		list := &infrav1.IngotReservationList{}
		must(t, p.Client.List(t.Context(), list, client.InNamespace(namespace)))
		if len(list.Items) == 1 && list.Items[0].Spec.State == infrav1.ReservationReserved {
			winner = list.Items[0].Name
			return winner, map[string]string{"x": "y", "y": "x"}[winner]
		}
		if len(list.Items) > 1 {
			t.Fatalf("%s: promised to %+v", namespace, list.Items)
		}
		_, err := create(t.Context(), p.a, namespace, []string{"x", "y"}[i%2])
		must(t, err)
	}
	t.Fatalf("%s: nobody is promised the hosts", namespace)
	return "", ""
}

// hears asks until the answer holds the words, or, without words, lets the Cluster go: a
// replica that did not write the promise sees it when its cache does.
func (p *pair) hears(t *testing.T, r *hooks.Replica, namespace, name, words string) {
	t.Helper()
	eventually.Wait{}.Until(t, fmt.Sprintf("%q to %s in %s", words, name, namespace), func(context.Context) (string, error) {
		answer, err := create(t.Context(), r, namespace, name)
		must(t, err)
		held := answer.RetryAfterSeconds != 0
		if held == (words != "") && strings.Contains(answer.Message, words) {
			return "", nil
		}
		return fmt.Sprintf("it hears %d s %q", answer.RetryAfterSeconds, answer.Message), nil
	})
}

// A replica is killed while it promises, at a moment that the seed chooses: the other one
// ends what it began, or begins anew, and there is one promise; it stands when the one that
// made it is gone, and no answer of the replica that is started again changes it.
func (p *pair) testKill(t *testing.T) {
	for seed := range uint64(kills) {
		namespace := fmt.Sprintf("kill-%d", seed)
		p.Namespace(t, namespace, 3)
		seen(t, p.a, namespace)
		seen(t, p.b, namespace)
		lot := rand.New(rand.NewPCG(seed, 3)) // drawn again from the same seed
		dies, lives := &p.a, p.b
		if seed%2 == 1 {
			dies, lives = &p.b, p.a
		}
		asked := make(chan error, 1)
		go func(r *hooks.Replica) {
			_, err := create(context.WithoutCancel(t.Context()), r, namespace, "x")
			asked <- err
		}(*dies)
		time.Sleep(time.Duration(lot.IntN(30)) * time.Millisecond)
		(*dies).Kill()
		t.Logf("seed %d: the caller hears %v", seed, <-asked)
		p.hears(t, lives, namespace, "x", "")
		promised := &infrav1.IngotReservation{}
		must(t, p.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, promised))
		p.hears(t, lives, namespace, "y", "3 hosts are missing: ")
		*dies = hooks.StartReplica(t, p.Kubeconfig)
		p.hears(t, *dies, namespace, "x", "")
		p.hears(t, *dies, namespace, "y", "3 hosts are missing: ")
		again := &infrav1.IngotReservation{}
		must(t, p.Client.Get(t.Context(), client.ObjectKeyFromObject(promised), again))
		if again.ResourceVersion != promised.ResourceVersion || again.Spec.State != infrav1.ReservationReserved {
			t.Errorf("seed %d: the promise was written again: %+v", seed, again)
		}
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/server"
)

// pauseHold is how long the paused site is watched: an agent's question, many polls,
// and the boot of a server that was switched on just before the pause.
const pauseHold = statusPOST + 4*time.Second

// testPaused pauses the only Cluster, as clusterctl move does, while one agent is
// about to write an image, one boots to wipe, and a host is free (I10): no BMC is
// told anything and no disk takes a byte, though the image comes and a person asks
// for work. Given up, all goes on, with the agents that waited.
func testPaused(t *testing.T, plane *Plane) {
	site := plane.NewSite(t, SiteOptions{
		Servers: []string{hostFree, hostProvisioning, hostWiping},
		Simulate: func(name string, c *server.Config) {
			if name == hostWiping {
				c.POST = statusPOST
			}
		},
	})
	site.StartManager(t, ManagerOptions{Name: "manager", Args: []string{"--reset-interval=5s", "--agent-deadline=2m", "--v=1"}})
	site.CreateCluster(t)
	s := &statusScenes{t: t, site: site, seen: map[string]int{}}
	for _, name := range []string{hostFree, hostProvisioning, hostWiping} {
		site.Register(t, name)
	}
	site.Await(t, "hosts inspected", site.Free(hostFree, hostProvisioning, hostWiping))
	site.Claim(t, hostWiping, theHost(hostWiping))
	site.Await(t, "a host installed", site.Installed(hostWiping))
	site.Await(t, "hosts that block a move", everyHost(site, func(host *infrav1.IngotHost) bool {
		_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
		return blocked
	}))
	site.Images = newImageServer(t, 3) // one that the boot server does not have yet
	site.Images.Hold()
	site.Claim(t, hostProvisioning, theHost(hostProvisioning))
	site.Await(t, "an agent at work", s.agentAtWork)
	site.Delete(t, hostWiping)
	site.Await(t, "a wipe ordered and the server on", s.wipeOrdered)

	pauseCluster(t, site, true)
	site.Await(t, "hosts that stand still", everyHost(site, func(host *infrav1.IngotHost) bool {
		_, blocked := host.Annotations[clusterctlv1.BlockMoveAnnotation]
		paused := conditions.Get(host, infrav1.PausedCondition)
		return !blocked && paused != nil && paused.Reason == infrav1.ReasonMovePaused
	}))
	before := touched(t, site)
	site.Images.Release()
	annotateHost(t, site, hostFree, infrav1.InspectAnnotation)
	time.Sleep(pauseHold)
	if diff := cmp.Diff(before, touched(t, site)); diff != "" {
		t.Errorf("what was done to servers during the pause:\n%s", diff)
	}
	if order := site.Host(t, hostProvisioning).Spec.Order; order == nil || order.Result != nil {
		t.Errorf("the order did not outlast the pause: %+v", order)
	}

	pauseCluster(t, site, false)
	site.Await(t, "the install to end", site.Provisioned(hostProvisioning))
	site.Await(t, "the wipe and the inspection to end", site.Free(hostFree, hostWiping))
	if diff := cmp.Diff(before[hostProvisioning].BMC, touched(t, site)[hostProvisioning].BMC); diff != "" {
		t.Errorf("the agent that waited was cut off:\n%s", diff)
	}
	if attempt := site.Host(t, hostProvisioning).Spec.Claim.Attempt; attempt != 1 {
		t.Errorf("installed at attempt %d, want the first", attempt)
	}
}

// done is all that a server was told by its BMC, and what its disk has taken.
type done struct {
	BMC             []string
	Written, Zeroed int64
	Marks           int
}

func touched(t *testing.T, site *Site) map[string]done {
	t.Helper()
	out := map[string]done{}
	for _, one := range site.DataCenter.Servers {
		var d done
		for _, w := range one.BMC.Writes() {
			if !strings.Contains(w.Path, "SessionService") {
				d.BMC = append(d.BMC, fmt.Sprintf("%s %s %d", w.Method, w.Action, w.Status))
			}
		}
		disk := one.Simulated.Disks()[0]
		d.Written, d.Zeroed = disk.BytesWritten()
		d.Marks = len(disk.Log())
		out[one.Spec.Name] = d
	}
	return out
}

func everyHost(site *Site, so func(*infrav1.IngotHost) bool) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		hosts := &infrav1.IngotHostList{}
		if err := site.Client.List(ctx, hosts, client.InNamespace(site.Namespace)); err != nil {
			return "", err
		}
		for i := range hosts.Items {
			if !so(&hosts.Items[i]) {
				return fmt.Sprintf("%s is not: %v, %+v", hosts.Items[i].Name, hosts.Items[i].Annotations, conditions.Get(&hosts.Items[i], infrav1.PausedCondition)), nil
			}
		}
		return "", nil
	}
}

func pauseCluster(t *testing.T, site *Site, on bool) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: clusterName}, cluster))
	base := cluster.DeepCopy()
	cluster.Spec.Paused = ptr.To(on)
	check(t, site.Client.Patch(t.Context(), cluster, client.MergeFrom(base)))
}

func annotateHost(t *testing.T, site *Site, name, annotation string) {
	t.Helper()
	host := site.Host(t, name)
	base := host.DeepCopy()
	if host.Annotations == nil {
		host.Annotations = map[string]string{}
	}
	host.Annotations[annotation] = time.Now().UTC().Format(time.RFC3339)
	check(t, site.Client.Patch(t.Context(), host, client.MergeFrom(base)))
}

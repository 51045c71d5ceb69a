// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/objecthistory"
	"github.com/ingot-metal/ingot/test/site"
)

// hung are the servers whose installed systems hang at boot.
type hung struct {
	mu    sync.Mutex
	names map[string]bool
}

func (h *hung) set(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.names == nil {
		h.names = map[string]bool{}
	}
	h.names[name] = true
}

// before is what runs on the server: nothing while it hangs.
func (h *hung) before(name string, system func(context.Context, server.System)) func(context.Context, server.System) {
	return func(ctx context.Context, os server.System) {
		h.mu.Lock()
		hangs := h.names[name]
		h.mu.Unlock()
		if hangs {
			<-ctx.Done()
			return
		}
		system(ctx, os)
	}
}

// healing: Cluster API's own MachineHealthCheck hands unhealthy Machines to Ingot. A
// server that lost its power is back after one power cycle, and so is its Node, under
// the same Machine. One whose system hangs is cycled as often as it was said, and its
// Machine replaced on another host; the host is out of service, wiped.
func healing(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", worker}, place{3, "c", worker}, place{4, "d", worker})
	c := s.create(t, site.Cluster{Name: "ailing", ControlPlanes: 1, Workers: 2})
	s.labels(t, c)
	s.remediate(t, c)
	h := s.Record(t, &infrav1.IngotRemediationList{}, &infrav1.IngotHostList{})
	_, workers := s.machines(t, c)
	s.heals(t, c, h, workers[0])
	s.replaces(t, c, workers[1])
}

// labels: Nodes carry the rack of their host, and what the cluster chose of its labels,
// and follow when they change.
func (s *scene) labels(t *testing.T, c site.Cluster) {
	t.Helper()
	_, workers := s.machines(t, c)
	host := s.hostOf(t, workers[0])
	is := func(zone, gpu string) site.Missing {
		return func(context.Context) (string, error) {
			for _, node := range s.Nodes(t, c) {
				if node.Name != workers[0].Status.NodeRef.Name {
					continue
				}
				if got := node.Labels["topology.kubernetes.io/zone"]; got != zone {
					return fmt.Sprintf("node %s is in zone %q, want %q", node.Name, got, zone), nil
				}
				if got := node.Labels["dc.example/gpu"]; got != gpu {
					return fmt.Sprintf("node %s has the GPU %q, want %q", node.Name, got, gpu), nil
				}
				return "", nil
			}
			return "there is no node " + workers[0].Status.NodeRef.Name, nil
		}
	}
	rack := host.Labels[site.RackLabel]
	s.Await(t, "the rack on the Node", is(rack, ""))
	s.patch(t, "ingotcluster", c.Name, `{"spec":{"nodeLabels":["dc.example/*"]}}`)
	s.patch(t, "ingothost", host.Name, `{"metadata":{"labels":{%q:"moved","dc.example/gpu":"a100"}}}`, site.RackLabel)
	s.Await(t, "the new rack and the label on the Node", is("moved", "a100"))
	s.patch(t, "ingothost", host.Name, `{"metadata":{"labels":{%q:%q,"dc.example/gpu":null}}}`, site.RackLabel, rack)
	s.Await(t, "the rack of before, and no label", is(rack, ""))
}

// remediate gives the workers' health check a template, two power cycles, and little
// patience.
func (s *scene) remediate(t *testing.T, c site.Cluster) {
	t.Helper()
	template := &infrav1.IngotRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "cycle"}}
	template.Spec.Template.Spec = infrav1.IngotRemediationSpec{RetryLimit: new(int32(2)), TimeoutSeconds: 90}
	s.Create(t, template)
	s.patch(t, "machinehealthcheck", c.Name+"-md-0", `{"spec":{"checks":{"unhealthyNodeConditions":[`+
		`{"type":"Ready","status":"Unknown","timeoutSeconds":5},{"type":"Ready","status":"False","timeoutSeconds":5}]},`+
		`"remediation":{"templateRef":{"apiVersion":%q,"kind":"IngotRemediationTemplate","name":"cycle"}}}}`, infrav1.GroupVersion.String())
}

// heals pulls the plug of a Machine's server.
func (s *scene) heals(t *testing.T, c site.Cluster, h *objecthistory.History, machine clusterv1.Machine) {
	t.Helper()
	host := s.hostOf(t, machine)
	server, before := s.World.Server(host.Name), s.bootID(t, c, machine)
	writes := len(server.BMC.Writes())
	must(t, server.Simulated.Power(t.Context(), bmc.Off))
	s.Await(t, "the remediation of a Machine whose server is off", s.remediation(machine.Name, true))
	s.Await(t, "its end", s.remediation(machine.Name, false))
	s.Await(t, "the cluster as it was", s.Running(c))
	if after := s.bootID(t, c, machine); after == before || after == "" {
		t.Errorf("the boot ID of node %s was %q, and is %q", machine.Name, before, after)
	}
	now := s.hostOf(t, machine)
	if now.Name != host.Name || now.Spec.Claim.InstanceID != host.Spec.Claim.InstanceID || now.Spec.Claim.Quarantine != nil {
		t.Errorf("the Machine had %s as %s and has %s as %s", host.Name, host.Spec.Claim.InstanceID, now.Name, now.Spec.Claim.InstanceID)
	}
	cycle := now.Spec.Claim.PowerCycle
	if cycle == nil || cycle.Count != 1 || cycle.State != infrav1.PowerCycleDone || cycle.BootID != before {
		t.Errorf("the host remembers %+v", cycle)
	}
	if on := resets(server.BMC.Writes()[writes:], "On"); on != 1 {
		t.Errorf("the BMC was told to switch on %d times", on)
	}
	var said []string
	for _, r := range versionsOf[*infrav1.IngotRemediation](t, s, h) {
		if reason := conditions.GetReason(r, infrav1.RemediationRestartedCondition); r.Name == machine.Name && (len(said) == 0 || said[len(said)-1] != reason) {
			said = append(said, reason)
		}
	}
	t.Logf("Restarted of remediation %s: %v", machine.Name, said)
	current := &clusterv1.Machine{}
	must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(&machine), current))
	if conditions.Has(current, clusterv1.MachineExternallyRemediatedCondition) || conditions.Has(current, clusterv1.MachineOwnerRemediatedCondition) {
		t.Errorf("the Machine still tells of its remediation: %+v", current.Status.Conditions)
	}
}

// replaces lets the system of a Machine's server hang for good.
func (s *scene) replaces(t *testing.T, c site.Cluster, machine clusterv1.Machine) {
	t.Helper()
	host := s.hostOf(t, machine)
	server := s.World.Server(host.Name)
	writes := len(server.BMC.Writes())
	s.hung.set(host.Name)
	must(t, server.Simulated.Power(t.Context(), bmc.Off))
	s.Await(t, "a Machine whose system hangs replaced", s.replaced(c, []clusterv1.Machine{machine}))
	s.Await(t, "the remediation's end", s.remediation(machine.Name, false))
	s.Await(t, "the host out of service", s.Hosts([]string{host.Name}, func(h *infrav1.IngotHost) string {
		record := h.Spec.Record
		if h.Status.Phase != infrav1.PhaseQuarantined || record.Quarantine.Reason != infrav1.QuarantineHealthFailed || !strings.Contains(record.Quarantine.Message, "2 power cycles") {
			return fmt.Sprintf("it is %s: %+v", h.Status.Phase, record)
		}
		return ""
	}))
	must(t, firstMissing(t, s.Wiped(host.Name)))
	// The first cycle found it off. It is on after each of them, cut off by the second
	// and at its release, and switched on to be wiped.
	all := server.BMC.Writes()[writes:]
	if on := resets(all, "On"); on != 3 {
		t.Errorf("the BMC was told to switch on %d times: %+v", on, all)
	}
	if cut := resets(all, "ForceOff"); cut < 1 {
		t.Errorf("the BMC was told to cut the power %d times: %+v", cut, all)
	}
	s.patch(t, "ingothost", host.Name, `{"metadata":{"annotations":{%q:%q}}}`, infrav1.ClearQuarantineAnnotation, time.Now().UTC().Format(time.RFC3339))
	s.end(t, c)
}

// remediation is missing until the Machine has one, or none.
func (s *scene) remediation(machine string, wanted bool) site.Missing {
	return func(ctx context.Context) (string, error) {
		list := &infrav1.IngotRemediationList{}
		if err := s.Client.List(ctx, list, client.InNamespace(s.Namespace)); err != nil {
			return "", err
		}
		var found string
		for i := range list.Items {
			if list.Items[i].Name == machine {
				found = conditions.GetMessage(&list.Items[i], infrav1.ReadyCondition)
				if wanted {
					return "", nil
				}
				return "it is there: " + found, nil
			}
		}
		if wanted {
			return "there is none", nil
		}
		return "", nil
	}
}

// bootID of the Machine's Node.
func (s *scene) bootID(t *testing.T, c site.Cluster, machine clusterv1.Machine) string {
	t.Helper()
	for _, node := range s.Nodes(t, c) {
		if node.Name == machine.Status.NodeRef.Name {
			return node.Status.NodeInfo.BootID
		}
	}
	t.Fatalf("no node %s", machine.Status.NodeRef.Name)
	return ""
}

// resets counts the orders to switch of one kind that the BMC took.
func resets(writes []bmc.Write, kind string) int {
	n := 0
	for _, w := range writes {
		if w.Action == "Reset "+kind && w.Status < 300 {
			n++
		}
	}
	return n
}

// firstMissing is what is missing now, as an error.
func firstMissing(t *testing.T, missing site.Missing) error {
	t.Helper()
	text, err := missing(t.Context())
	if err == nil && text != "" {
		return fmt.Errorf("%s", text)
	}
	return err
}

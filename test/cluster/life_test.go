// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// scale asks for that many workers of a MachineDeployment, of which the cluster has one
// more or one less then.
func (s *stage) scale(t *testing.T, deployment string, replicas int) {
	t.Helper()
	s.site.Kubectl(t, "scale", "machinedeployment", deployment, "--replicas="+strconv.Itoa(replicas))
}

// scaleOut: one worker more, on which a second pod runs. It is by a template of somebody
// who does not tell the kubelet its provider ID: Ingot finds the Node by the UUID of its
// server.
func scaleOut(t *testing.T, s *stage) {
	deployment := s.deployNameless(t)
	s.cluster.Workers++
	s.scale(t, deployment, 1)
	s.awaitCluster(t)
	identify(t, s)
	check(t, s.workload.sayHello(t.Context(), 2))
	s.site.AwaitFor(t, patience, "two pods", s.greeters(t, 2))
	s.site.AwaitFor(t, patience, "their answers at every node", s.workload.answers)
}

// scaleIn: the worker that goes is drained before its server is switched off, so that its
// pod is on the other one; the server is off, wiped and free.
func scaleIn(t *testing.T, s *stage) {
	var gone clusterv1.Machine
	for _, m := range s.workers(t) {
		if s.isNameless(m) {
			gone = m
		}
	}
	host := hostOf(t, gone)
	witness, err := s.workload.stand(t.Context(), gone.Status.NodeRef.Name)
	check(t, err)
	s.cluster.Workers--
	s.scale(t, gone.Labels[clusterv1.MachineDeploymentNameLabel], 0)
	s.site.AwaitFor(t, patience, "a pod of it evicted", s.workload.evicted(witness))
	if claim := s.site.Host(t, host).Spec.Claim; claim == nil || claim.State != infrav1.ClaimProvisioned {
		t.Errorf("its pod has not gone, and the claim of its server is %+v", claim)
	}
	check(t, s.workload.letGo(t.Context(), witness))
	s.awaitCluster(t)
	identify(t, s)
	s.site.AwaitFor(t, patience, "its host given back, wiped", site.All(s.site.Free(host), s.site.Wiped(host)))
	s.site.AwaitFor(t, patience, "both pods on the worker that is left", s.greeters(t, 2))
}

// chosenDomain is that of the labels which the operator has chosen for Nodes, chosenLabel
// one of it.
const chosenDomain, chosenLabel = "dc.example", chosenDomain + "/disks"

// relabel: the Node follows the label of its host's rack, there and back, and beside it one
// that the operator chose when the cluster was made: given, changed and taken away. A label
// that nobody chose stays the host's.
func relabel(t *testing.T, s *stage) {
	worker := s.workers(t)[0]
	host, name := hostOf(t, worker), worker.Status.NodeRef.Name
	const own = "other.example/note"
	for _, step := range []struct{ rack, chosen string }{
		{"rack-moved", "flash"}, {"rack-moved", "spinning"}, {s.world.Rack(host), ""},
	} {
		chosen := chosenLabel + "=" + step.chosen
		if step.chosen == "" {
			chosen = chosenLabel + "-"
		}
		s.site.Kubectl(t, "label", "ingothost", host, "--overwrite", site.RackLabel+"="+step.rack, chosen, own+"=mine")
		s.site.AwaitFor(t, patience, "the labels of "+host, func(ctx context.Context) (string, error) {
			node, err := s.workload.node(ctx, name)
			if err != nil {
				return "", err
			}
			zone, value := node.Labels[corev1.LabelTopologyZone], node.Labels[chosenLabel]
			if _, there := node.Labels[chosenLabel]; zone == step.rack && value == step.chosen && there == (step.chosen != "") {
				return "", nil
			}
			return fmt.Sprintf("the Node is in %q, want %q; its %s is %q, want %q", zone, step.rack, chosenLabel, value, step.chosen), nil
		})
	}
	node, err := s.workload.node(t.Context(), name)
	check(t, err)
	if value, there := node.Labels[own]; there {
		t.Errorf("nobody chose the label %s, and the Node has it as %q", own, value)
	}
	s.site.Kubectl(t, "label", "ingothost", host, own+"-")
}

// heal pulls the plug of a worker's server. Cluster API's health check and an
// IngotRemediation bring it back: the same Machine, Node and instance, booted anew.
func heal(t *testing.T, s *stage) {
	template := &infrav1.IngotRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.site.Namespace, Name: "power-cycle"}}
	template.Spec.Template.Spec = infrav1.IngotRemediationSpec{RetryLimit: ptr.To[int32](2), TimeoutSeconds: 600}
	s.site.Create(t, template)
	s.patch(t, "machinehealthcheck", s.cluster.Name+"-md-0", `{"spec":{"checks":{"unhealthyNodeConditions":[`+
		`{"type":"Ready","status":"Unknown","timeoutSeconds":30},{"type":"Ready","status":"False","timeoutSeconds":900}]},`+
		`"remediation":{"templateRef":{"apiVersion":%q,"kind":"IngotRemediationTemplate","name":%q}}}}`, infrav1.GroupVersion.String(), template.Name)
	worker := s.workers(t)[0]
	host, name := hostOf(t, worker), worker.Status.NodeRef.Name
	before, err := s.workload.node(t.Context(), name)
	check(t, err)
	check(t, s.world.Server(host).VM.PowerOff())
	s.site.AwaitFor(t, patience, "a remediation", s.remediation(worker.Name, true))
	s.site.AwaitFor(t, patience, "the Node, booted anew", func(ctx context.Context) (string, error) {
		node, err := s.workload.node(ctx, name)
		if err != nil {
			return "", err
		}
		if node.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID {
			return "another boot ID", nil
		}
		return notReady(*node), nil
	})
	s.site.AwaitFor(t, patience, "the remediation's end", s.remediation(worker.Name, false))
	s.awaitCluster(t)
	identify(t, s)
	cycle := s.site.Host(t, host).Spec.Claim.PowerCycle
	if cycle == nil || cycle.State != infrav1.PowerCycleDone || cycle.Count != 1 || cycle.BootID != before.Status.NodeInfo.BootID {
		t.Errorf("the host remembers %+v, want one power cycle of the boot %s", cycle, before.Status.NodeInfo.BootID)
	}
	if now := s.workers(t)[0]; now.Name != worker.Name || now.Spec.ProviderID != worker.Spec.ProviderID {
		t.Errorf("the first worker was %s (%s) and is %s (%s)", worker.Name, worker.Spec.ProviderID, now.Name, now.Spec.ProviderID)
	}
	s.healed++
}

// remediation is missing until the Machine has one, or none.
func (s *stage) remediation(machine string, wanted bool) site.Missing {
	return func(ctx context.Context) (string, error) {
		list := &infrav1.IngotRemediationList{}
		if err := s.site.Client.List(ctx, list, client.InNamespace(s.site.Namespace)); err != nil {
			return "", err
		}
		for i := range list.Items {
			if list.Items[i].Name != machine {
				continue
			}
			if wanted {
				return "", nil
			}
			return "it is there: " + conditions.GetMessage(&list.Items[i], infrav1.ReadyCondition), nil
		}
		if wanted {
			return "there is none", nil
		}
		return "", nil
	}
}

// upgrade is what the book says: copies of the machine templates with the new image,
// the control plane first. A control plane of one takes the spare server for it, and
// leaves it; the worker's server is freed before another is taken. CoreDNS is
// named, since servers without a registry have only that of their image.
func upgrade(t *testing.T, s *stage) {
	url, checksum := s.world.Image(t, s.version)
	for _, role := range []string{"control-plane", "md-0"} {
		old, copied := &infrav1.IngotMachineTemplate{}, &infrav1.IngotMachineTemplate{}
		check(t, s.site.Client.Get(t.Context(), client.ObjectKey{Namespace: s.site.Namespace, Name: s.cluster.Name + "-" + role}, old))
		copied.Namespace, copied.Name, copied.Spec = old.Namespace, old.Name+"-2", *old.Spec.DeepCopy()
		copied.Spec.Template.Spec.Image.URL, copied.Spec.Template.Spec.Image.Checksum = url, checksum
		s.site.Create(t, copied)
	}
	s.patch(t, "kubeadmcontrolplane", s.cluster.Name+"-control-plane",
		`{"spec":{"version":%q,"machineTemplate":{"spec":{"infrastructureRef":{"name":"%s-control-plane-2"}}},`+
			`"kubeadmConfigSpec":{"clusterConfiguration":{"dns":{"imageTag":%q}}}}}`, s.version, s.cluster.Name, coreDNSTag(t, s.version))
	s.cluster.Kubernetes = s.version
	s.site.AwaitFor(t, patience, "a control plane of "+s.version, s.upToDate(true))
	s.awaitCluster(t)
	s.patch(t, "machinedeployment", s.cluster.Name+"-md-0",
		`{"spec":{"template":{"spec":{"version":%q,"infrastructureRef":{"name":"%s-md-0-2"}}}}}`, s.version, s.cluster.Name)
	s.site.AwaitFor(t, patience, "workers of "+s.version, s.upToDate(false))
	s.awaitCluster(t)
	identify(t, s)
	check(t, s.workload.sayHello(t.Context(), 1))
	s.site.AwaitFor(t, patience, "a pod", s.greeters(t, 1))
	s.site.AwaitFor(t, patience, "its answer at every node", s.workload.answers)
	s.site.AwaitFor(t, patience, "CoreDNS and all the others", s.workload.podsReady)
	s.upgraded = fmt.Sprintf("upgraded %s → %s", s.from, s.version)
}

// upToDate says which machines of a role have not the cluster's version yet, or are
// too many.
func (s *stage) upToDate(controlPlane bool) site.Missing {
	return func(ctx context.Context) (string, error) {
		controlPlanes, workers, err := s.site.Machines(ctx, s.cluster)
		if err != nil {
			return "", err
		}
		machines, want := workers, s.cluster.Workers
		if controlPlane {
			machines, want = controlPlanes, s.cluster.ControlPlanes
		}
		for _, m := range machines {
			if m.Spec.Version != s.cluster.Kubernetes || !m.Status.NodeRef.IsDefined() {
				return fmt.Sprintf("machine %s is %s, of %s: %s", m.Name, m.Status.Phase, m.Spec.Version, conditions.GetMessage(&m, clusterv1.MachineReadyCondition)), nil
			}
		}
		if len(machines) != want {
			return fmt.Sprintf("%d machines, want %d", len(machines), want), nil
		}
		return "", nil
	}
}

// deployNameless makes a copy of the workers' MachineDeployment, without a worker yet, whose
// template does not tell the kubelet its provider ID. It returns its name.
func (s *stage) deployNameless(t *testing.T) string {
	t.Helper()
	from := client.ObjectKey{Namespace: s.site.Namespace, Name: s.cluster.Name + "-md-0"}
	config := &bootstrapv1.KubeadmConfigTemplate{}
	check(t, s.site.Client.Get(t.Context(), from, config))
	copied := &bootstrapv1.KubeadmConfigTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: s.site.Namespace, Name: s.cluster.Name + "-" + nameless}}
	copied.Spec = *config.Spec.DeepCopy()
	copied.Spec.Template.Spec.JoinConfiguration.NodeRegistration.KubeletExtraArgs = nil
	s.site.Create(t, copied)
	old := &clusterv1.MachineDeployment{}
	check(t, s.site.Client.Get(t.Context(), from, old))
	more := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.site.Namespace, Name: copied.Name}}
	more.Spec = *old.Spec.DeepCopy()
	more.Spec.Replicas = ptr.To[int32](0)
	labels := map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name, clusterv1.MachineDeploymentNameLabel: more.Name}
	more.Spec.Selector.MatchLabels, more.Spec.Template.Labels = labels, labels
	more.Spec.Template.Spec.Bootstrap.ConfigRef.Name = copied.Name
	s.site.Create(t, more)
	return more.Name
}

// nameless ends the names of what deployNameless makes.
const nameless = "nameless"

// isNameless says whether nobody told the kubelet of a Machine its provider ID.
func (s *stage) isNameless(m clusterv1.Machine) bool {
	return m.Labels[clusterv1.MachineDeploymentNameLabel] == s.cluster.Name+"-"+nameless
}

// patch changes an object by a JSON merge patch.
func (s *stage) patch(t *testing.T, kind, name, format string, args ...any) {
	t.Helper()
	s.site.Kubectl(t, "patch", kind, name, "--type=merge", "--patch="+fmt.Sprintf(format, args...))
}

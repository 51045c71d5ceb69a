// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/site"
)

// Waits of the managers. Agents that are held are silent for long, and a deaf server is not
// cut off, until etcd is restored.
var (
	before = []string{"--agent-deadline=20m", "--soft-power-off=20m"}
	after  = []string{"--agent-deadline=20s"}
)

const (
	roleLabel = "restore.test/role"
	// The hosts that a template's machines take.
	controlPlane, remediated, moved = "control-plane", "remediated", "moved"
	movingNamespace                 = "moving"
)

// A drill is a site in which each host is in a state of its own.
type drill struct {
	*site.Site
	t      *testing.T
	plane  *controlplane.ControlPlane
	holds  *holds
	states []*state
	// first is the server of the cluster's control plane.
	first string
	// moving is the namespace that is moved, with a cluster of its own.
	moving         *site.Site
	cluster, other site.Cluster
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{t: t, holds: newHolds(), states: states()}
	maker, _ := personality.Named("standard")
	var world *site.World
	world = site.NewWorld(t, site.WorldConfig{
		ServersPerRack: len(d.states) + 1, Report: 10 * time.Second,
		Simulate: func(name string, c *server.Config) {
			c.Pace = d.holds.pace(name)
			c.IgnoreShutdown = name == d.named("releasing, powering off")
			c.System = d.holds.before(name, func(ctx context.Context, os server.System) { world.Workload.Boot(ctx, os) })
		},
		Configure: func(spec *datacenter.ServerSpec) {
			if spec.Name == d.named("preparing") {
				spec.Personality = maker
			}
		},
	})
	d.first = "r1-s1"
	for i, s := range d.states {
		s.host = serverName(i)
	}
	d.Site = site.Start(t, site.Config{World: world, NoManager: true})
	d.plane = d.Plane.(*controlplane.ControlPlane)
	d.moving = d.In(t, movingNamespace)
	d.StartManager(t, before...)
	return d
}

func serverName(i int) string { return fmt.Sprintf("r1-s%d", i+2) }

// named is the server whose host has the state.
func (d *drill) named(name string) string {
	for i, s := range d.states {
		if s.name == name {
			return serverName(i)
		}
	}
	d.t.Fatalf("no state is called %q", name)
	return ""
}

func (d *drill) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// wait waits until nothing is missing: on a machine that does other work as well, too.
func (d *drill) wait(what string, missing site.Missing) {
	d.t.Helper()
	d.AwaitFor(d.t, 12*time.Minute, what, missing)
}

func (d *drill) server(s *state) *datacenter.Server { return d.World.Server(s.host) }

func (d *drill) fault(s *state, faults bmc.Faults) { d.server(s).BMC.SetFaults(faults) }

// of is the site as seen from the namespace of a state's host.
func (d *drill) of(s *state) *site.Site {
	if s.name == "moved" {
		return d.moving
	}
	return d.Site
}

// machine is the name of the Machine that has the host in the snapshot.
func (s *state) machine() string { return "m-" + s.host }

// machineText is a Machine with what it needs, for one host.
const machineText = `
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {name: %[1]s, namespace: %[2]s, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  joinConfiguration:
    nodeRegistration:
      name: "{{ ds.meta_data.local_hostname }}"
      kubeletExtraArgs:
      - {name: provider-id, value: "{{ ds.meta_data.provider_id }}"}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: IngotMachine
metadata: {name: %[1]s, namespace: %[2]s, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  hostSelector: {matchLabels: {%[3]s: %[4]s}}
  image: {url: %[5]q, checksum: %[6]q, format: raw}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Machine
metadata: {name: %[1]s, namespace: %[2]s, labels: {cluster.x-k8s.io/cluster-name: c1}}
spec:
  clusterName: c1
  version: %[7]s
  deletion: {nodeDeletionTimeoutSeconds: 5}
  bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: %[1]s}}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: IngotMachine, name: %[1]s}
`

func (d *drill) claimAs(name, host string) {
	d.t.Helper()
	url, checksum := d.World.Image(d.t, site.DefaultKubernetes)
	d.Apply(d.t, fmt.Appendf(nil, machineText, name, d.Namespace, site.HostLabel, host, url, checksum, site.DefaultKubernetes))
}

// claim makes a Machine that asks for the state's host.
func (d *drill) claim(s *state) { d.t.Helper(); d.claimAs(s.machine(), s.host) }

// release deletes that Machine.
func (d *drill) release(s *state) {
	d.t.Helper()
	d.Kubectl(d.t, "delete", "machine", s.machine(), "--namespace="+d.Namespace, "--wait=false")
}

// hook holds the deletion of the Machine, or no longer.
func (d *drill) hook(s *state, on bool) {
	d.t.Helper()
	value := clusterv1.PreDrainDeleteHookAnnotationPrefix + "/drill-"
	if on {
		value = strings.TrimSuffix(value, "-") + "=wait"
	}
	d.Kubectl(d.t, "annotate", "machine", s.machine(), "--namespace="+d.Namespace, value)
}

// command annotates the host as an operator does.
func (d *drill) command(s *state, name string) {
	d.t.Helper()
	d.Kubectl(d.t, "annotate", "ingothost", s.host, "--namespace="+d.of(s).Namespace, name+"="+time.Now().UTC().Format(time.RFC3339))
}

func (d *drill) patch(host, text string) {
	d.t.Helper()
	d.Kubectl(d.t, "patch", "ingothost", host, "--namespace="+d.Namespace, "--type=merge", "--patch="+text)
}

func (d *drill) label(host, key, value string) {
	d.t.Helper()
	object := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: host}}
	d.must(d.Client.Patch(d.t.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value))))
}

// pause pauses the Cluster of the namespace that is moved, as clusterctl move does first, and
// as long as it has not arrived.
func (d *drill) pause(on bool) {
	d.t.Helper()
	d.Kubectl(d.t, "patch", "cluster", d.other.Name, "--namespace="+movingNamespace, "--type=merge", "--patch="+fmt.Sprintf(`{"spec":{"paused":%t}}`, on))
}

// gone reports whether an object is still there.
func (d *drill) gone(ctx context.Context, object client.Object, name string) (string, error) {
	err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	return name + " is there", err
}

// register makes the hosts of all servers.
func (d *drill) register() {
	d.t.Helper()
	d.RegisterNetwork(d.t)
	for _, s := range d.states {
		if s.early != nil {
			s.early(d, s)
		}
	}
	add := func(at *site.Site, name, role string) {
		for _, object := range at.HostObjects(name) {
			if host, ok := object.(*infrav1.IngotHost); ok && role != "" {
				metav1.SetMetaDataLabel(&host.ObjectMeta, roleLabel, role)
			}
			at.Create(d.t, object)
		}
	}
	add(d.Site, d.first, controlPlane)
	for _, s := range d.states {
		switch s.name {
		case "remediation":
			add(d.Site, s.host, remediated)
		case "moved":
			add(d.moving, s.host, moved)
		default:
			add(d.Site, s.host, "")
		}
	}
}

// createClusters makes the cluster of all machines and the one that is moved.
func (d *drill) createClusters() {
	d.t.Helper()
	roles := func(controlPlane, worker string) map[string]string {
		return map[string]string{"INGOT_CONTROL_PLANE_HOST_LABELS": roleLabel + ": " + controlPlane, "INGOT_WORKER_HOST_LABELS": roleLabel + ": " + worker}
	}
	d.cluster = d.CreateCluster(d.t, site.Cluster{Name: "c1", ControlPlanes: 1, Workers: 1, Variables: roles(controlPlane, remediated)})
	d.other = d.CreateCluster(d.t, site.Cluster{Name: "c2", Namespace: movingNamespace, ControlPlanes: 1, Variables: roles(moved, "none")})
	template := &infrav1.IngotRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: "cycle"}}
	template.Spec.Template.Spec = infrav1.IngotRemediationSpec{RetryLimit: new(int32(2)), TimeoutSeconds: 1800}
	d.Create(d.t, template)
	d.Kubectl(d.t, "patch", "machinehealthcheck", "c1-md-0", "--namespace="+d.Namespace, "--type=merge", "--patch="+
		`{"spec":{"checks":{"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":5},{"type":"Ready","status":"False","timeoutSeconds":5}]},`+
		`"remediation":{"templateRef":{"apiVersion":"`+infrav1.GroupVersion.String()+`","kind":"IngotRemediationTemplate","name":"cycle"}}}}`)
}

// runs reports which of the Machines do not run yet.
func (d *drill) runs(names ...string) site.Missing {
	return func(ctx context.Context) (string, error) {
		var missing []string
		for _, name := range names {
			m := &clusterv1.Machine{}
			if err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: name}, m); err != nil {
				return "", err
			}
			if !isRunning(m) {
				missing = append(missing, fmt.Sprintf("%s (%s) is %s", name, d.about(name), m.Status.Phase))
			}
		}
		return strings.Join(missing, "; "), nil
	}
}

// runsCluster reports which of a template's Machines do not run yet.
func (d *drill) runsCluster(c site.Cluster) site.Missing {
	return func(ctx context.Context) (string, error) {
		controlPlanes, workers, err := d.Machines(ctx, c)
		running := 0
		for _, m := range append(controlPlanes, workers...) {
			if strings.HasPrefix(m.Name, c.Name+"-") && isRunning(&m) {
				running++
			}
		}
		return lacks(running == c.ControlPlanes+c.Workers, fmt.Sprintf("%d machines of cluster %s run", running, c.Name)), err
	}
}

func isRunning(m *clusterv1.Machine) bool {
	return m.Status.Phase == string(clusterv1.MachinePhaseRunning) && m.Status.NodeRef.IsDefined()
}

// about is the state of a Machine's host.
func (d *drill) about(machine string) string {
	for _, s := range d.states {
		if strings.HasSuffix(machine, "-"+s.host) {
			return s.name
		}
	}
	return ""
}

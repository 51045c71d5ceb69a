// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/objecthistory"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	coreGroup         = "cluster.x-k8s.io"
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"
	// holding is how long a situation lasts that nothing must happen in: some
	// rounds of everything that is periodic here.
	holding = 6 * time.Second
	// What every server of the site has.
	serverCores, serverMemory = 6, 24 << 30
)

// othersKinds are the kinds of Cluster API that are recorded, by group; of Ingot's all are.
var othersKinds = map[string][]string{
	coreGroup:         {coreCluster, coreMachine, "MachineSet", "MachineDeployment"},
	controlPlaneGroup: {"KubeadmControlPlane"},
}

// A recorder brings about what the rules are about, and keeps what happens.
type recorder struct {
	site    *site.Site
	history *objecthistory.History
	run     *Run
	tenant  *bmc.BMC
	// main and brief are clusters: one stays, one goes.
	main, brief site.Cluster
	// idle are objects of all kinds that are reconciled, of a Cluster whose machine has no
	// host.
	idle []Key
	// mark changes every object that is made; nil: nothing does.
	mark func(*unstructured.Unstructured)
	// patience of a wait, and deadline of all of them; the zero deadline: none.
	patience time.Duration
	deadline time.Time
	// ports are those that hosts without a server were given.
	ports int
}

// What a wait may take: far above what a loaded machine needs. The report is written in the
// time that is kept for it.
const (
	waitLimit   = 6 * time.Minute
	waitVar     = "INGOT_CONFORMANCE_WAIT"
	keptForEnds = 2 * time.Minute
	// hopeShare of the patience is enough for what controllers do at once; hopeInterval is the
	// pause between two looks.
	hopeShare    = 8
	hopeInterval = 200 * time.Millisecond
)

// newRecorder is one whose waits end before the test does.
func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := &recorder{run: &Run{Situations: map[string]Situation{}, Endpoints: map[Key]string{}}, patience: waitLimit}
	if text := os.Getenv(waitVar); text != "" {
		limit, err := time.ParseDuration(text)
		check(t, err)
		r.patience = limit
	}
	if deadline, ok := t.Deadline(); ok {
		r.deadline = deadline.Add(-keptForEnds)
	}
	return r
}

// await waits until nothing is missing, or fails the step.
func (r *recorder) await(t *testing.T, what string, missing site.Missing) {
	t.Helper()
	limit := r.patience
	if !r.deadline.IsZero() {
		limit = min(limit, time.Until(r.deadline))
	}
	if limit <= 0 {
		t.Fatalf("no time is left to wait for %s", what)
	}
	r.site.AwaitFor(t, limit, what, missing)
}

// record makes a run with Cluster API's own controllers: clusters by clusterctl and
// its templates on simulated servers, and everything that a rule wants to see.
func (r *recorder) record(t *testing.T) {
	t.Helper()
	world := site.NewWorld(t, site.WorldConfig{Racks: 3, ServersPerRack: 2, Simulate: func(_ string, c *server.Config) {
		c.Cores, c.MemoryBytes = serverCores, serverMemory
	}})
	r.site = site.Start(t, site.Config{World: world})
	r.run.Commands = append(r.run.Commands, Command{Name: "init"}) // site.Start fails without
	r.history = r.site.Record(t, r.recorded(t)...)
	r.site.Register(t, world.Servers()...)
	check(t, r.startTenant(t))
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"tenant", r.registerTenant}, {"unknowns", r.unknownClients}, {"idle objects", r.makeIdle},
		{"free hosts", r.freeHosts}, {"no host for these", r.noHosts}, {"free hosts again", r.freeHosts},
		{"clusters", r.clusters}, {"pauses", r.pauses}, {"move", r.move}, {"waiting", r.waiting}, {"lost status", r.loseStatus}, {"lost power", r.losePower}, {"failure", r.failure},
		{"deletion", r.deletion}, {"nodes", r.nodes}, {"contract v1beta1", r.readLegacy}, {"servers", r.lookAtServers},
		{"limits", r.limits}, {"finish", r.finish}, {"hooks", r.hooks},
	} {
		if !t.Run(step.name, func(t *testing.T) { guard(t, step.do) }) {
			r.run.Stuck = append(r.run.Stuck, step.name)
		}
	}
}

// guard turns a panic of a step into its failure: the steps after it are still made.
func guard(t *testing.T, step func(*testing.T)) {
	t.Helper()
	defer func() {
		if cause := recover(); cause != nil {
			t.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	step(t)
}

// recorded lists the kinds that are recorded: all of Ingot's, as their definitions in the API
// server name them, and some of Cluster API's.
func (r *recorder) recorded(t *testing.T) []client.ObjectList {
	t.Helper()
	kindsOf := map[string][]string{}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	check(t, r.site.Client.List(t.Context(), definitions))
	for i := range definitions.Items {
		if d := definitions.Items[i].Spec; d.Group == group && strings.HasPrefix(d.Names.Kind, "Ingot") {
			r.run.Kinds = append(r.run.Kinds, Kind{Name: d.Names.Kind, Namespaced: d.Scope == apiextensionsv1.NamespaceScoped})
			kindsOf[group] = append(kindsOf[group], d.Names.Kind)
		}
	}
	maps.Copy(kindsOf, othersKinds)
	var lists []client.ObjectList
	for apiGroup, names := range kindsOf {
		for _, kind := range names {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: apiGroup, Version: v1beta2, Kind: kind + "List"})
			lists = append(lists, list)
		}
	}
	return lists
}

// hope waits for what a rule asks for, and goes on without it: the rule's check says so.
// What the steps need to go on at all is awaited.
func (r *recorder) hope(t *testing.T, what string, missing site.Missing) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), r.patience/hopeShare)
	defer cancel()
	began, last := time.Now(), ""
	for {
		lack, err := missing(ctx)
		if lack == "" && err == nil {
			t.Logf("%s: after %s", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
		if ctx.Err() == nil {
			last = fmt.Sprint(lack, " ", err)
		}
		select {
		case <-ctx.Done():
			t.Logf("goes on without %s, of which is missing: %s", what, last)
			return
		case <-time.After(hopeInterval):
		}
	}
}

// revision of the API server now: what is written later has a higher one.
func (r *recorder) revision(t *testing.T) uint64 {
	t.Helper()
	list := &infrav1.IngotNetworkList{}
	check(t, r.site.Client.List(t.Context(), list))
	revision, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	check(t, err)
	return revision
}

// during brings a situation about and writes down when it was.
func (r *recorder) during(t *testing.T, name string, objects []Key, what func(), later ...func() []Key) {
	t.Helper()
	s := Situation{Objects: objects, From: time.Now(), First: r.revision(t)}
	what()
	for _, made := range later {
		s.Objects = append(s.Objects, made()...)
	}
	s.To, s.Last = time.Now(), r.revision(t)
	r.run.Situations[name] = s
}

// hold lets a situation last.
func hold(t *testing.T) {
	t.Helper()
	select {
	case <-t.Context().Done():
	case <-time.After(holding):
	}
}

// namespaceFor makes a namespace.
func (r *recorder) namespaceFor(t *testing.T, name string) string {
	t.Helper()
	r.site.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return name
}

// get an object as it is.
func (r *recorder) get(ctx context.Context, k Key) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: groupOf(k.Kind), Version: v1beta2, Kind: k.Kind})
	return o, r.site.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: k.Name}, o)
}

func groupOf(kind string) string {
	if kind == coreCluster || kind == coreMachine {
		return coreGroup
	}
	return group
}

// patch an object, or its status.
func (r *recorder) patch(t *testing.T, k Key, status bool, change func(*unstructured.Unstructured)) {
	t.Helper()
	o, err := r.get(t.Context(), k)
	check(t, err)
	before := o.DeepCopy()
	change(o)
	if status {
		check(t, r.site.Client.Status().Patch(t.Context(), o, client.MergeFrom(before)))
		return
	}
	check(t, r.site.Client.Patch(t.Context(), o, client.MergeFrom(before)))
}

// is waits until objects are as wanted.
func (r *recorder) is(what string, objects []Key, wanted func(*unstructured.Unstructured) bool) site.Missing {
	return func(ctx context.Context) (string, error) {
		for _, k := range objects {
			o, err := r.get(ctx, k)
			if err != nil {
				return "", err
			}
			if !wanted(o) {
				return fmt.Sprintf("%s is not %s: %v", k, what, value(o, "status", "conditions")), nil
			}
		}
		return "", nil
	}
}

// gone waits until an object is not there.
func (r *recorder) gone(k Key) site.Missing {
	return func(ctx context.Context) (string, error) {
		_, err := r.get(ctx, k)
		if client.IgnoreNotFound(err) != nil || err == nil {
			return k.String(), client.IgnoreNotFound(err)
		}
		return "", nil
	}
}

// startTenant starts the BMC of a tenant, which runs until the test ends.
func (r *recorder) startTenant(t *testing.T) (err error) {
	t.Helper()
	r.tenant, err = bmc.Start(bmc.Config{
		Authority: r.site.World.DataCenter.Authority, Machine: &bmc.Bench{}, Username: "tenant", Password: "its-own",
		System: bmc.System{UUID: "5B0F8C4E-1C59-4C2C-9C25-0B6C3A1F0001", Serial: "tenant-1", MACs: []string{"02:00:00:00:aa:01"}, Cores: 1, MemoryBytes: 1 << 30},
	})
	if err == nil {
		t.Cleanup(func() { check(t, r.tenant.Close()) })
	}
	return err
}

// registerTenant has a host whose BMC has an account of its own: a bench that does
// nothing but switch.
func (r *recorder) registerTenant(t *testing.T) {
	t.Helper()
	namespace := r.namespaceFor(t, "tenant")
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	for _, o := range []client.Object{
		&corev1.Secret{ObjectMeta: meta("bmc"), Data: map[string][]byte{infrav1.SecretKeyUsername: []byte("tenant"), infrav1.SecretKeyPassword: []byte("its-own")}},
		&corev1.ConfigMap{ObjectMeta: meta("ca"), Data: map[string]string{infrav1.CAKey: string(r.site.World.DataCenter.Authority.PEM())}},
		&infrav1.IngotHost{ObjectMeta: meta("h"), Spec: infrav1.IngotHostSpec{
			BMC: &infrav1.BMC{
				Address: r.tenant.Address(), CredentialsRef: infrav1.LocalReference{Name: "bmc"}, CABundleRef: &infrav1.CABundleReference{Name: "ca"},
			},
			BootMACAddress: "02:00:00:00:aa:01", BootMode: infrav1.BootModeUEFI, NetworkRef: infrav1.NetworkReference{Name: site.Network},
		}},
	} {
		r.site.Create(t, o)
	}
}

// freeHosts waits until all hosts can be claimed.
func (r *recorder) freeHosts(t *testing.T) {
	t.Helper()
	r.await(t, "free hosts", r.site.Free(r.site.World.Servers()...))
}

// clusters makes two by clusterctl and its templates: one that stays, with a control
// plane of three and two workers, and one of a single machine that goes.
func (r *recorder) clusters(t *testing.T) {
	t.Helper()
	r.main = r.site.CreateCluster(t, site.Cluster{Name: "c1", ControlPlanes: 3, Workers: 2})
	r.brief = r.site.CreateCluster(t, site.Cluster{Name: "c3", ControlPlanes: 1})
	r.run.Endpoints[Key{kindCluster, r.main.Namespace, r.main.Name}] = r.main.Endpoint.String()
	r.run.Commands = append(r.run.Commands, Command{Name: "generate cluster"}) // CreateCluster fails without
	r.await(t, "machines that run", site.All(r.site.Running(r.main), r.site.Running(r.brief)))
}

// machinesOf are the keys of a cluster's machines that have a host, and of the hosts.
func (r *recorder) machinesOf(t *testing.T, cluster string) (machines, hosts []Key) {
	t.Helper()
	list := &infrav1.IngotMachineList{}
	check(t, r.site.Client.List(t.Context(), list, client.InNamespace(r.site.Namespace), client.MatchingLabels{clusterLabel: cluster}))
	for i := range list.Items {
		id, err := infrav1.ParseProviderID(list.Items[i].Spec.ProviderID)
		if err != nil {
			continue
		}
		machines = append(machines, Key{kindMachine, list.Items[i].Namespace, list.Items[i].Name})
		hosts = append(hosts, Key{kindHost, id.Namespace, id.Host})
	}
	if len(machines) == 0 {
		t.Fatalf("cluster %s has no machine with a host", cluster)
	}
	return machines, hosts
}

// move lets clusterctl write what it would move into a directory: discovery and pause as in
// a move, but no wait for block-move, and nothing is deleted.
func (r *recorder) move(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	// What no Cluster owns moves by its label.
	r.create(t, Key{kindReservation, r.site.Namespace, "tomorrow"}, reserving("rack-9"))
	r.create(t, Key{kindRemediationTemplate, r.site.Namespace, "power"}, with(map[string]any{}, "spec", "template"))
	r.run.Moved.Revision = r.revision(t)
	r.site.Clusterctl(t, nil, "move", "--namespace="+r.site.Namespace, "--to-directory="+dir)
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	check(t, r.site.Client.List(t.Context(), definitions, client.HasLabels{clusterctlLabel}))
	for i := range definitions.Items {
		r.run.Moved.Kinds = append(r.run.Moved.Kinds, definitions.Items[i].Spec.Names.Kind)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	check(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		check(t, err)
		objects, err := parse(string(data))
		check(t, err)
		for _, o := range objects {
			k := keyOf(&o)
			if k.Namespace == "" {
				r.run.Moved.Global = append(r.run.Moved.Global, k)
				continue
			}
			r.run.Moved.Objects = append(r.run.Moved.Objects, k)
		}
	}
	machines, hosts := r.machinesOf(t, r.main.Name)
	r.hope(t, "the end of the move's pause", r.is("unpaused", append(machines, hosts...), func(o *unstructured.Unstructured) bool {
		return status(o, pausedCondition) == "False"
	}))
}

// nodes reads the Nodes of the cluster that stays.
func (r *recorder) nodes(t *testing.T) {
	t.Helper()
	for _, node := range r.site.Nodes(t, r.main) {
		known := Node{Namespace: r.main.Namespace, Cluster: r.main.Name, Name: node.Name, ProviderID: node.Spec.ProviderID}
		for _, a := range node.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				known.Address = a.Address
			}
		}
		r.run.Nodes = append(r.run.Nodes, known)
	}
}

// readLegacy reads Ingot's objects as somebody who knows contract v1beta1 only.
func (r *recorder) readLegacy(t *testing.T) {
	t.Helper()
	for _, kind := range []string{kindMachine, kindCluster} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: v1beta1, Kind: kind + "List"})
		check(t, r.site.Client.List(t.Context(), list))
		r.run.Legacy = append(r.run.Legacy, list.Items...)
	}
}

// lookAtServers writes down what the site knows of its servers, and waits before that until
// the cluster that stays has heard of the host that was given back last.
func (r *recorder) lookAtServers(t *testing.T) {
	t.Helper()
	for _, s := range r.site.World.DataCenter.Servers {
		disk, err := s.Disk()
		check(t, err)
		known := Server{
			Host: Key{kindHost, r.site.Namespace, s.Spec.Name}, Rack: r.site.World.Rack(s.Spec.Name), Powered: s.Powered(),
			Blank: disk.Marker == nil && !disk.PartitionTable, CPUs: 2 * serverCores, MemoryBytes: serverMemory, // two threads a core
		}
		if disk.Marker != nil && disk.Marker.Complete {
			known.Instance = disk.Marker.InstanceID
		}
		r.run.Servers = append(r.run.Servers, known)
	}
	hold(t)
}

// finish writes down what the history, the audit log and the BMCs have. What the history
// lacks is no reason to leave the rest out.
func (r *recorder) finish(t *testing.T) {
	t.Helper()
	if err := r.history.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	versions, err := r.history.Versions()
	check(t, err)
	for _, v := range versions {
		o, ok := v.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("the history has a %T", v.Object)
		}
		r.run.Versions = append(r.run.Versions, Version{Revision: v.Revision, At: v.At, Deleted: v.Deleted, Object: *o})
	}
	for _, e := range r.site.Audit(t, time.Time{}) {
		if e.Changes() && e.Object.APIGroup == group {
			r.run.Writes = append(r.run.Writes, Write{
				User: e.User.Username, Verb: e.Verb, Resource: e.Object.Resource, Subresource: e.Object.Subresource,
				Namespace: e.Object.Namespace, Name: e.Object.Name, Code: int(e.Response.Code), Time: e.Received,
			})
		}
	}
	for _, s := range r.site.World.DataCenter.Servers {
		r.writesOf(s.BMC, r.site.Namespace+"/"+s.Spec.Name, datacenter.Username)
	}
	r.writesOf(r.tenant, "tenant/h", "tenant")
}

// writesOf are the writes that a BMC took. Its one account is who did them: it
// refuses all others.
func (r *recorder) writesOf(b *bmc.BMC, host, user string) {
	for _, w := range b.Writes() {
		if w.Status >= 200 && w.Status < 300 && !strings.HasPrefix(w.Action, "Log") {
			r.run.BMC = append(r.run.BMC, BMCWrite{Host: host, User: user, What: w.Action, Time: w.At})
		}
	}
}

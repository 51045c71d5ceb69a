// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/site"
)

// create an object of Ingot's or of Cluster API's.
func (r *recorder) create(t *testing.T, k Key, edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	o := object(groupOf(k.Kind)+"/"+v1beta2, k.Kind, k.Namespace, k.Name)
	if k.Kind == kindMachine {
		set(o, machineSpec(), "spec")
	}
	for _, edit := range edits {
		edit(o)
	}
	if r.mark != nil {
		r.mark(o)
	}
	r.site.Create(t, o)
	return o
}

// endpoint of a cluster that nobody will look for.
func endpoint(o *unstructured.Unstructured) {
	set(o, map[string]any{"host": "192.0.2.20", "port": int64(6443)}, "spec", "controlPlaneEndpoint")
}

func infrastructure(kind, name string) func(*unstructured.Unstructured) {
	return with(map[string]any{"apiGroup": group, "kind": kind, "name": name}, "spec", "infrastructureRef")
}

// makeCluster makes a Cluster with its infrastructure.
func (r *recorder) makeCluster(t *testing.T, namespace, name string, edits ...func(*unstructured.Unstructured)) Key {
	t.Helper()
	infra := Key{kindCluster, namespace, name}
	r.create(t, infra, edits...)
	r.create(t, Key{coreCluster, namespace, name}, infrastructure(kindCluster, name))
	return infra
}

// makeMachine makes a Machine with its infrastructure, and bootstrap data that is
// only a name.
func (r *recorder) makeMachine(t *testing.T, namespace, cluster, name string, edits ...func(*unstructured.Unstructured)) Key {
	t.Helper()
	labels := func(o *unstructured.Unstructured) {
		merged := map[string]string{clusterLabel: cluster}
		for k, v := range o.GetLabels() {
			merged[k] = v
		}
		o.SetLabels(merged)
	}
	infra := Key{kindMachine, namespace, name}
	r.create(t, infra, labels)
	r.create(t, Key{coreMachine, namespace, name}, append([]func(*unstructured.Unstructured){labels, infrastructure(kindMachine, name),
		with(cluster, "spec", "clusterName"), with("no-such-secret", "spec", "bootstrap", "dataSecretName")}, edits...)...)
	return infra
}

// noData lets a Machine wait for bootstrap data that nothing makes.
func noData(o *unstructured.Unstructured) {
	set(o, map[string]any{"configRef": map[string]any{"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "none"}}, "spec", "bootstrap")
}

// delete an object without waiting.
func (r *recorder) delete(t *testing.T, k Key) {
	t.Helper()
	o, err := r.get(t.Context(), k)
	check(t, err)
	check(t, r.site.Client.Delete(t.Context(), o))
}

// unknown clients makes objects that Ingot has nothing to do with.
func (r *recorder) unknownClients(t *testing.T) {
	t.Helper()
	namespace := r.namespaceFor(t, "unknowns")
	alone, stray := Key{kindMachine, namespace, "alone"}, Key{kindMachine, namespace, "stray"}
	lonely, external := Key{kindCluster, namespace, "lonely"}, Key{kindCluster, namespace, "external"}
	r.during(t, Unowned, []Key{alone}, func() {
		r.during(t, UnownedCluster, []Key{lonely}, func() {
			r.during(t, NoCluster, []Key{stray}, func() {
				r.create(t, alone)
				r.create(t, lonely, endpoint)
				machine := r.create(t, Key{coreMachine, namespace, "stray"}, infrastructure(kindMachine, "stray"),
					with("nowhere", "spec", "clusterName"), with("no-such-secret", "spec", "bootstrap", "dataSecretName"))
				r.create(t, stray, labelled(map[string]string{clusterLabel: "nowhere"}), func(o *unstructured.Unstructured) {
					set(o, []any{map[string]any{"apiVersion": coreGroup + "/" + v1beta2, "kind": coreMachine, "name": "stray", "uid": string(machine.GetUID())}},
						"metadata", "ownerReferences")
				})
				r.external(t, external)
				hold(t)
			})
			r.delete(t, lonely)
		})
		r.delete(t, alone)
	})
	r.hope(t, "the unknown clients' end", func(ctx context.Context) (string, error) {
		if lack, err := r.gone(alone)(ctx); lack != "" || err != nil {
			return lack, err
		}
		return r.gone(lonely)(ctx)
	})
}

// external makes a cluster that somebody else manages, and is that somebody.
func (r *recorder) external(t *testing.T, k Key) {
	t.Helper()
	r.makeCluster(t, k.Namespace, k.Name, annotated(managedBy))
	core := Key{coreCluster, k.Namespace, k.Name}
	r.during(t, External, []Key{k}, func() {
		r.await(t, "core to own the external cluster", r.is("owned", []Key{k}, func(o *unstructured.Unstructured) bool { return owner(o, coreCluster) != "" }))
		r.patch(t, k, false, endpoint)
		r.patch(t, k, true, with(true, "status", "initialization", "provisioned"))
		r.hope(t, "core to take over the external cluster", r.is("provisioned", []Key{core}, func(o *unstructured.Unstructured) bool {
			return truth(o, "status", "initialization", "infrastructureProvisioned")
		}))
	})
}

// pauses pauses one of each kind by annotation, and then the Clusters.
func (r *recorder) pauses(t *testing.T) {
	t.Helper()
	machines, hosts := r.machinesOf(t, r.main.Name)
	infra := Key{kindCluster, r.main.Namespace, r.main.Name}
	all := append(append([]Key{infra, r.template(t)}, machines...), hosts...)
	for _, k := range r.idle {
		if k.Kind != kindHost { // it belongs to no Cluster
			all = append(all, k)
		}
	}
	r.hope(t, "no pause", r.is("unpaused", all, paused("False")))
	r.pauseObjects(t, append([]Key{machines[0], hosts[0], infra, all[1]}, r.idle...))
	r.hope(t, "the end of the pause", r.is("unpaused", all, paused("False")))
	r.pauseClusters(t, all, hosts)
	r.hope(t, "the end of the pause", r.is("unpaused", all, paused("False")))
}

// paused is whether the Paused condition has a status.
func paused(want string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool { return status(o, pausedCondition) == want }
}

// pauseObjects pauses objects by annotation, and takes their status away: what comes back
// before the end of the pause is written by a controller that does not heed it.
func (r *recorder) pauseObjects(t *testing.T, objects []Key) {
	t.Helper()
	before := map[Key]*unstructured.Unstructured{}
	for _, k := range objects {
		o, err := r.get(t.Context(), k)
		check(t, err)
		before[k] = o
	}
	r.during(t, StatusTaken, objects, func() {
		defer r.change(objects, func(o *unstructured.Unstructured) { unset(o, "metadata", "annotations", pausedAnnotation) })
		for _, k := range objects {
			r.patch(t, k, false, func(o *unstructured.Unstructured) { annotate(o, pausedAnnotation, "") })
		}
		r.hope(t, "paused objects", r.is("paused", objects, paused("True")))
		for _, k := range objects {
			r.patch(t, k, true, func(o *unstructured.Unstructured) { unset(o, "status") })
			// Controllers do not hear of a status; of an annotation they do.
			r.patch(t, k, false, func(o *unstructured.Unstructured) { annotate(o, "conformance/look", "again") })
		}
		r.hope(t, "paused objects that say so again", r.is("paused", objects, paused("True")))
		r.during(t, PausedObject, objects, func() { hold(t) })
		r.change(objects, func(o *unstructured.Unstructured) { unset(o, "metadata", "annotations", pausedAnnotation) })
		r.hope(t, "a status that is found again", r.is("as it was", objects, asBefore(before)))
	})
	r.writeRebuilt(t, before)
}

// asBefore is whether the essence of an object's status is as it was.
func asBefore(before map[Key]*unstructured.Unstructured) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		return reflect.DeepEqual(essence(before[keyOf(o)]), essence(o))
	}
}

// writeRebuilt writes down how objects were before their status was lost, and how they are.
func (r *recorder) writeRebuilt(t *testing.T, before map[Key]*unstructured.Unstructured) {
	t.Helper()
	for k, was := range before {
		o, err := r.get(t.Context(), k)
		check(t, err)
		r.run.Rebuilt = append(r.run.Rebuilt, Rebuilt{Before: *was, After: *o})
	}
}

// change tries to change objects, also of a step that has failed: what it has paused must
// not hold up the steps after it.
func (r *recorder) change(objects []Key, edit func(*unstructured.Unstructured)) {
	ctx := context.Background()
	for _, k := range objects {
		if o, err := r.get(ctx, k); err == nil {
			before := o.DeepCopy()
			edit(o)
			_ = r.site.Client.Patch(ctx, o, client.MergeFrom(before))
		}
	}
}

// pauseClusters pauses all Clusters, as clusterctl move does.
func (r *recorder) pauseClusters(t *testing.T, all, hosts []Key) {
	t.Helper()
	clusters := []Key{{coreCluster, r.main.Namespace, r.main.Name}, {coreCluster, r.brief.Namespace, r.brief.Name}}
	for _, k := range r.idle {
		if k.Kind == kindCluster {
			clusters = append(clusters, Key{coreCluster, k.Namespace, k.Name})
		}
	}
	blocked := func(o *unstructured.Unstructured) bool { _, is := annotation(o, blockMove); return is }
	ofClusters := slices.DeleteFunc(slices.Clone(all), func(k Key) bool { return k.Namespace == "" })
	r.hope(t, "hosts that block a move", r.is("blocking", hosts, blocked))
	defer r.change(clusters, with(false, "spec", "paused"))
	r.during(t, PausedCluster, ofClusters, func() {
		for _, k := range clusters {
			r.patch(t, k, false, with(true, "spec", "paused"))
		}
		r.hope(t, "a paused cluster", r.is("paused", ofClusters, paused("True")))
		r.hope(t, "hosts that let a move go", r.is("free to move", hosts, func(o *unstructured.Unstructured) bool { return !blocked(o) }))
		hold(t)
	})
}

// template is one of the cluster that stays which tells its capacity.
func (r *recorder) template(t *testing.T) Key {
	t.Helper()
	k := Key{kindTemplate, r.main.Namespace, r.main.Name + "-md-0"}
	r.hope(t, "the template's capacity", r.is("told", []Key{k}, func(o *unstructured.Unstructured) bool { return text(o, "status", "capacity", "cpu") != "" }))
	return k
}

func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	o.SetAnnotations(annotations)
}

// waiting makes what cannot go on: a cluster without an endpoint with a machine that
// is deleted.
func (r *recorder) waiting(t *testing.T) {
	t.Helper()
	infra := r.makeCluster(t, r.namespaceFor(t, "waiting"), "c2")
	early := r.makeMachine(t, infra.Namespace, "c2", "early")
	told := func(kind string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return status(o, kind) == "False" && ingotFinalizer(o) }
	}
	r.hope(t, "a cluster that misses its endpoint", r.is("told", []Key{infra}, told("EndpointReady")))
	r.hope(t, "a machine that waits", r.is("waiting", []Key{early}, ingotFinalizer))
	r.during(t, NoEndpoint, []Key{infra}, func() {
		r.during(t, NotReady, []Key{early}, func() {
			r.delete(t, Key{coreMachine, early.Namespace, early.Name})
			r.hope(t, "the end of a machine that waited", r.gone(early))
		})
	})
}

// noHosts makes machines that must not get a host though hosts are free: for a rack that is
// not there, before their Cluster is provisioned, and before there is bootstrap data.
func (r *recorder) noHosts(t *testing.T) {
	t.Helper()
	namespace, secret := r.site.Namespace, "bootstrap"
	r.site.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: secret}, Data: map[string][]byte{"value": []byte("#cloud-config\n{}\n")}})
	data := with(secret, "spec", "bootstrap", "dataSecretName")
	ready, unready := r.makeCluster(t, namespace, "ready", endpoint), r.makeCluster(t, namespace, "unready")
	impossible := r.makeMachine(t, namespace, "ready", "impossible", data, with("rack-9", "spec", "failureDomain"))
	early := r.makeMachine(t, namespace, "unready", "early", data)
	bare := r.makeMachine(t, namespace, "ready", "bare", noData)
	machines := []Key{impossible, early, bare}
	r.during(t, Impossible, []Key{impossible}, func() {
		r.during(t, Unprepared, []Key{early, bare}, func() {
			r.hope(t, "machines that say why they have no host", r.is("told", machines, func(o *unstructured.Unstructured) bool { return status(o, "HostClaimed") == "False" }))
			hold(t)
		})
	})
	for _, k := range machines {
		r.delete(t, Key{coreMachine, k.Namespace, k.Name})
	}
	for _, k := range machines {
		r.await(t, "the end of "+k.Name, r.gone(k))
	}
	for _, k := range []Key{ready, unready} {
		r.delete(t, Key{coreCluster, k.Namespace, k.Name})
		r.await(t, "the end of "+k.Name, r.gone(k))
	}
}

// loseStatus takes the status of one of each kind of a running cluster away and waits until
// Ingot has found it again.
func (r *recorder) loseStatus(t *testing.T) {
	t.Helper()
	machines, hosts := r.machinesOf(t, r.main.Name)
	objects := []Key{machines[0], hosts[0], {kindCluster, r.main.Namespace, r.main.Name}}
	before := map[Key]*unstructured.Unstructured{}
	for _, k := range objects {
		o, err := r.get(t.Context(), k)
		check(t, err)
		before[k] = o
	}
	r.during(t, StatusLost, objects, func() {
		for _, k := range objects {
			r.patch(t, k, true, func(o *unstructured.Unstructured) { unset(o, "status") })
		}
		r.hope(t, "a status that is found again", r.is("as it was", objects, asBefore(before)))
	})
	r.writeRebuilt(t, before)
}

// workers are the workers of the cluster that stays, and their hosts.
func (r *recorder) workers(t *testing.T) (machines, hosts []Key) {
	t.Helper()
	all, of := r.machinesOf(t, r.main.Name)
	for i, k := range all {
		o, err := r.get(t.Context(), k)
		check(t, err)
		if _, control := o.GetLabels()["cluster.x-k8s.io/control-plane"]; !control {
			machines, hosts = append(machines, k), append(hosts, of[i])
		}
	}
	if len(machines) == 0 {
		t.Fatal("the cluster has no worker")
	}
	return machines, hosts
}

// losePower switches the server of a worker off, as a person would, and on again.
func (r *recorder) losePower(t *testing.T) {
	t.Helper()
	machines, hosts := r.workers(t)
	server := r.site.World.Server(hosts[0].Name).Simulated
	defer func() { check(t, server.Power(context.WithoutCancel(t.Context()), bmc.On)) }()
	told := func(want string) site.Missing {
		return r.is("told", machines[:1], func(o *unstructured.Unstructured) bool { return status(o, healthy) == want })
	}
	r.hope(t, "a machine whose server is on", told("True"))
	r.during(t, PowerLost, machines[:1], func() {
		check(t, server.Power(t.Context(), bmc.Off))
		r.hope(t, "a machine whose server is off", told("False"))
	})
	check(t, server.Power(t.Context(), bmc.On))
	r.hope(t, "a machine whose server is on again", told("True"))
}

// failure takes the host of a worker away: its machine cannot recover. Only who may act as
// the manager can do that.
func (r *recorder) failure(t *testing.T) {
	t.Helper()
	machines, hosts := r.workers(t)
	worker := len(machines) - 1
	manager, err := client.New(impersonate(r.site.Plane.RESTConfig(), managerUser), client.Options{})
	check(t, err)
	r.during(t, Terminal, []Key{machines[worker]}, func() {
		host, err := r.get(t.Context(), hosts[worker])
		check(t, err)
		check(t, manager.Patch(t.Context(), host, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claim":null}}`))))
		r.hope(t, "a machine that has failed", r.is("failed", []Key{machines[worker]}, func(o *unstructured.Unstructured) bool {
			return failure(o, failedPermanently) != "" && status(o, readyCondition) == "False"
		}))
		hold(t)
	})
}

// deletion deletes the cluster of one machine, whose BMC fails for a while.
func (r *recorder) deletion(t *testing.T) {
	t.Helper()
	machines, hosts := r.machinesOf(t, r.brief.Name)
	infra := Key{kindCluster, r.brief.Namespace, r.brief.Name}
	server := r.site.World.Server(hosts[0].Name)
	defer server.BMC.SetFaults(bmc.Faults{})
	server.BMC.SetFaults(bmc.Faults{Status: http.StatusServiceUnavailable, Match: func(method, _ string) bool { return method != http.MethodGet }})
	r.delete(t, Key{coreCluster, r.brief.Namespace, r.brief.Name})
	deleting := func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }
	r.hope(t, "a machine that is deleted", r.is("deleted", machines, deleting))
	r.hope(t, "a BMC that refuses", func(context.Context) (string, error) {
		for _, w := range server.BMC.Writes() {
			if w.Status == http.StatusServiceUnavailable {
				return "", nil
			}
		}
		return "it was asked for nothing", nil
	})
	r.during(t, FailingRelease, machines, func() { hold(t) })
	r.during(t, ClusterDeletion, append([]Key{infra}, machines...), func() {
		// Core deletes the infrastructure when the machines are gone; somebody in a
		// hurry does not wait.
		if o, err := r.get(t.Context(), infra); err == nil {
			check(t, client.IgnoreNotFound(r.site.Client.Delete(t.Context(), o)))
		}
		hold(t)
	})
	server.BMC.SetFaults(bmc.Faults{})
	r.await(t, "the cluster's end", r.site.Gone(r.brief))
	r.hope(t, "a host that is given back", r.site.Free(hosts[0].Name))
}

// limits runs managers that look at some objects only.
func (r *recorder) limits(t *testing.T) {
	t.Helper()
	r.site.StopManager()
	mine, others := r.namespaceFor(t, "mine"), r.namespaceFor(t, "others")
	r.limit(t, "--namespace="+mine, OwnNamespace, ForeignNamespace, mine, others, nil)
	ours, theirs := r.namespaceFor(t, "ours"), r.namespaceFor(t, "theirs")
	r.limit(t, "--watch-filter=conformance", OwnFilter, ForeignFilter, ours, theirs, func(o *unstructured.Unstructured) {
		labels := o.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["cluster.x-k8s.io/watch-filter"] = "conformance"
		o.SetLabels(labels)
	})
}

// limit runs a manager with a flag over objects of two namespaces, of which it is to
// reconcile those of the first.
func (r *recorder) limit(t *testing.T, flag, ownName, foreignName, own, foreign string, mark func(*unstructured.Unstructured)) {
	t.Helper()
	r.site.StartManager(t, flag)
	defer r.site.StopManager()
	var objects, others []Key
	r.during(t, ownName, nil, func() {
		r.during(t, foreignName, nil, func() {
			others = r.samples(t, foreign, nil)
			objects = r.samples(t, own, mark)
			r.hope(t, "objects that are reconciled", r.is("reconciled", objects, hasStatus))
			r.await(t, "other objects that core knows", r.is("owned", others[:2], func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) > 0 }))
			hold(t)
		}, func() []Key { return others })
	}, func() []Key { return objects })
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"net/http"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/bmc"
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
	r.create(t, Key{coreMachine, namespace, name}, append(edits, labels, infrastructure(kindMachine, name),
		with(cluster, "spec", "clusterName"), with("no-such-secret", "spec", "bootstrap", "dataSecretName"))...)
	return infra
}

// delete an object without waiting.
func (r *recorder) delete(t *testing.T, k Key) {
	t.Helper()
	o, err := r.get(t.Context(), k)
	check(t, err)
	check(t, r.site.Client.Delete(t.Context(), o))
}

// strangers makes objects that Ingot has nothing to do with.
func (r *recorder) strangers(t *testing.T) {
	t.Helper()
	namespace := r.namespaceFor(t, "strangers")
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
	r.site.Await(t, "the strangers' end", func(ctx context.Context) (string, error) {
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
		r.site.Await(t, "core to own the external cluster", r.is("owned", []Key{k}, func(o *unstructured.Unstructured) bool { return owner(o, coreCluster) != "" }))
		r.patch(t, k, false, endpoint)
		r.patch(t, k, true, with(true, "status", "initialization", "provisioned"))
		r.site.Await(t, "core to take over the external cluster", r.is("provisioned", []Key{core}, func(o *unstructured.Unstructured) bool {
			return truth(o, "status", "initialization", "infrastructureProvisioned")
		}))
	})
}

// pauses pauses one of each kind by annotation, and then the cluster.
func (r *recorder) pauses(t *testing.T) {
	t.Helper()
	machines, hosts := r.machinesOf(t, r.main.Name)
	infra := Key{kindCluster, r.main.Namespace, r.main.Name}
	core := Key{coreCluster, r.main.Namespace, r.main.Name}
	template := r.template(t)
	some := []Key{machines[0], hosts[0], infra, template}
	all := append(append([]Key{infra, template}, machines...), hosts...)
	paused := func(want string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool {
			return o.GetKind() == kindTemplate || status(o, pausedCondition) == want
		}
	}
	r.site.Await(t, "no pause", r.is("unpaused", all, paused("False")))
	for _, k := range some {
		r.patch(t, k, false, func(o *unstructured.Unstructured) { annotate(o, pausedAnnotation, "") })
	}
	r.site.Await(t, "paused objects", r.is("paused", some, paused("True")))
	r.during(t, PausedObject, some, func() { hold(t) })
	for _, k := range some {
		r.patch(t, k, false, func(o *unstructured.Unstructured) { unset(o, "metadata", "annotations", pausedAnnotation) })
	}
	blocked := func(o *unstructured.Unstructured) bool { _, is := annotation(o, blockMove); return is }
	r.site.Await(t, "the end of the pause", r.is("unpaused", all, paused("False")))
	r.site.Await(t, "hosts that block a move", r.is("blocking", hosts, blocked))
	r.during(t, PausedCluster, all, func() {
		for _, k := range []Key{core, {coreCluster, r.brief.Namespace, r.brief.Name}} {
			r.patch(t, k, false, with(true, "spec", "paused"))
		}
		r.site.Await(t, "a paused cluster", r.is("paused", all, paused("True")))
		r.site.Await(t, "hosts that let a move go", r.is("free to move", hosts, func(o *unstructured.Unstructured) bool { return !blocked(o) }))
		hold(t)
	})
	for _, k := range []Key{core, {coreCluster, r.brief.Namespace, r.brief.Name}} {
		r.patch(t, k, false, with(false, "spec", "paused"))
	}
	r.site.Await(t, "the end of the pause", r.is("unpaused", all, paused("False")))
}

// template is one of the cluster that stays which tells its capacity.
func (r *recorder) template(t *testing.T) Key {
	t.Helper()
	k := Key{kindTemplate, r.main.Namespace, r.main.Name + "-md-0"}
	r.site.Await(t, "the template's capacity", r.is("told", []Key{k}, func(o *unstructured.Unstructured) bool { return text(o, "status", "capacity", "cpu") != "" }))
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
// is deleted, and a machine for a rack that is not there.
func (r *recorder) waiting(t *testing.T) {
	t.Helper()
	infra := r.makeCluster(t, r.namespaceFor(t, "waiting"), "c2")
	early := r.makeMachine(t, infra.Namespace, "c2", "early")
	told := func(kind string) func(*unstructured.Unstructured) bool {
		return func(o *unstructured.Unstructured) bool { return status(o, kind) == "False" && ingotFinalizer(o) }
	}
	r.site.Await(t, "a cluster that misses its endpoint", r.is("told", []Key{infra}, told("EndpointReady")))
	r.site.Await(t, "a machine that waits", r.is("waiting", []Key{early}, ingotFinalizer))
	r.during(t, NoEndpoint, []Key{infra}, func() {
		r.during(t, NotReady, []Key{early}, func() {
			r.delete(t, Key{coreMachine, early.Namespace, early.Name})
			r.site.Await(t, "the end of a machine that waited", r.gone(early))
		})
	})
	nowhere := r.makeMachine(t, r.main.Namespace, r.main.Name, "nowhere", with("rack-9", "spec", "failureDomain"))
	r.during(t, Impossible, []Key{nowhere}, func() {
		r.site.Await(t, "a machine without a place", r.is("told", []Key{nowhere}, told("HostClaimed")))
		hold(t)
	})
}

// loseStatus takes the status of one of each kind away and waits until Ingot has
// found it again.
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
		r.site.Await(t, "a status that is found again", r.is("as it was", objects, func(o *unstructured.Unstructured) bool {
			return reflect.DeepEqual(essence(before[keyOf(o)]), essence(o))
		}))
	})
	for _, k := range objects {
		o, err := r.get(t.Context(), k)
		check(t, err)
		r.run.Rebuilt = append(r.run.Rebuilt, Rebuilt{Before: *before[k], After: *o})
	}
}

// failure takes the host of a worker away: its machine cannot recover. Only who may act as
// the manager can do that.
func (r *recorder) failure(t *testing.T) {
	t.Helper()
	machines, hosts := r.machinesOf(t, r.main.Name)
	worker := -1
	for i, k := range machines {
		o, err := r.get(t.Context(), k)
		check(t, err)
		if _, control := o.GetLabels()["cluster.x-k8s.io/control-plane"]; !control {
			worker = i
		}
	}
	if worker < 0 {
		t.Fatal("the cluster has no worker")
	}
	manager, err := client.New(impersonate(r.site.Plane.RESTConfig(), managerUser), client.Options{})
	check(t, err)
	r.during(t, Terminal, []Key{machines[worker]}, func() {
		host, err := r.get(t.Context(), hosts[worker])
		check(t, err)
		check(t, manager.Patch(t.Context(), host, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"claim":null}}`))))
		r.site.Await(t, "a machine that has failed", r.is("failed", []Key{machines[worker]}, func(o *unstructured.Unstructured) bool {
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
	server.BMC.SetFaults(bmc.Faults{Status: http.StatusServiceUnavailable, Match: func(method, _ string) bool { return method != http.MethodGet }})
	r.delete(t, Key{coreCluster, r.brief.Namespace, r.brief.Name})
	deleting := func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil }
	r.site.Await(t, "a machine that is deleted", r.is("deleted", machines, deleting))
	r.site.Await(t, "a BMC that refuses", func(context.Context) (string, error) {
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
		o, err := r.get(t.Context(), infra)
		check(t, err)
		check(t, client.IgnoreNotFound(r.site.Client.Delete(t.Context(), o)))
		hold(t)
	})
	server.BMC.SetFaults(bmc.Faults{})
	r.site.Await(t, "the cluster's end", r.site.Gone(r.brief))
	r.site.Await(t, "a host that is given back", r.site.Free(hosts[0].Name))
}

// limits runs managers that look at some objects only.
func (r *recorder) limits(t *testing.T) {
	t.Helper()
	r.site.StopManager()
	mine, others := r.namespaceFor(t, "mine"), r.namespaceFor(t, "others")
	r.limit(t, "--namespace="+mine, OwnNamespace, ForeignNamespace, mine, others, func(*unstructured.Unstructured) {})
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
	both := func(namespace string) []Key {
		return []Key{r.makeCluster(t, namespace, "c", endpoint), r.makeMachine(t, namespace, "c", "m")}
	}
	objects, others := both(own), both(foreign)
	for _, k := range objects {
		r.patch(t, k, false, mark)
	}
	r.during(t, ownName, objects, func() {
		r.during(t, foreignName, others, func() {
			r.site.Await(t, "objects that are reconciled", r.is("reconciled", objects, func(o *unstructured.Unstructured) bool {
				return ingotFinalizer(o) && condition(o, readyCondition) != nil
			}))
			r.site.Await(t, "other objects that core knows", r.is("owned", others, func(o *unstructured.Unstructured) bool { return len(o.GetOwnerReferences()) > 0 }))
			hold(t)
		})
	})
}

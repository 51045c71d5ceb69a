// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A story is a run told by hand: a small one in which all rules hold, and which
// the broken runs differ from in one thing each.
type story struct {
	run      *Run
	revision uint64
	now      time.Time
	objects  map[Key]*unstructured.Unstructured
}

func newStory() *story {
	return &story{
		run: &Run{Situations: map[string]Situation{}}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		objects: map[Key]*unstructured.Unstructured{},
	}
}

// tick lets a second pass, and the next revision come.
func (s *story) tick() { s.revision++; s.now = s.now.Add(time.Second) }

// put changes an object, or makes it, and writes a version of it down.
func (s *story) put(k Key, edits ...func(*unstructured.Unstructured)) {
	s.tick()
	o := s.objects[k]
	if o == nil {
		o = object("test/v1", k.Kind, k.Namespace, k.Name)
		s.objects[k] = o
	}
	for _, edit := range edits {
		edit(o)
	}
	o.SetResourceVersion(strconv.FormatUint(s.revision, 10))
	s.run.Versions = append(s.run.Versions, Version{Revision: s.revision, At: s.now, Object: *o.DeepCopy()})
}

// ingot is put, by a request of Ingot's.
func (s *story) ingot(k Key, subresource string, edits ...func(*unstructured.Unstructured)) {
	s.put(k, edits...)
	s.run.Writes = append(s.run.Writes, Write{
		User: ingotUser + "controller-manager", Verb: "patch", Resource: resourceOf(k.Kind), Subresource: subresource,
		Namespace: k.Namespace, Name: k.Name, Code: 200, Time: s.now,
	})
}

// gone is an object's end.
func (s *story) gone(k Key) {
	s.put(k)
	s.run.Versions[len(s.run.Versions)-1].Deleted = true
	delete(s.objects, k)
}

func (s *story) bmc(host, user, what string) {
	s.tick()
	s.run.BMC = append(s.run.BMC, BMCWrite{Host: host, User: user, What: what, Time: s.now})
}

// during writes down that something was so while what happened.
func (s *story) during(name string, objects []Key, what func()) {
	s.tick()
	situation := Situation{Objects: objects, From: s.now, First: s.revision}
	what()
	s.tick()
	situation.To, situation.Last = s.now, s.revision
	s.run.Situations[name] = situation
	s.tick()
}

func with(v any, path ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { set(o, v, path...) }
}

func labelled(labels map[string]string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetLabels(labels) }
}

func annotated(key string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{key: ""}) }
}

func notAnnotated(o *unstructured.Unstructured) { o.SetAnnotations(nil) }

func ownedBy(kind, name string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: kind, Name: name, UID: "1"}})
	}
}

func finalized(o *unstructured.Unstructured) {
	o.SetFinalizers([]string{"ingot." + group})
}

func unfinalized(o *unstructured.Unstructured) { o.SetFinalizers(nil) }

func (s *story) deleting(o *unstructured.Unstructured) {
	now := metav1.NewTime(s.now)
	o.SetDeletionTimestamp(&now)
}

// conditioned sets a condition.
func conditioned(kind, status, message string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		var kept []any
		for _, c := range list(o, "status", "conditions") {
			if text(tree(c), "type") != kind {
				kept = append(kept, c)
			}
		}
		set(o, append(kept, map[string]any{"type": kind, "status": status, "reason": "Because", "message": message}), "status", "conditions")
	}
}

// id is the provider ID of the n-th host.
func id(namespace string, n int) string {
	return fmt.Sprintf("ingot://%s/h%d/00000000-0000-0000-0000-00000000000%d", namespace, n, n)
}

// instanceOf is the instance of the n-th host.
func instanceOf(namespace string, n int) string {
	whole := id(namespace, n)
	return whole[len(whole)-36:]
}

func hostKey(namespace string, n int) Key { return Key{kindHost, namespace, fmt.Sprint("h", n)} }

// cluster makes a Cluster with its infrastructure, which waits without an endpoint.
func (s *story) cluster(namespace, name string, endpoint bool) (core, infra Key) {
	core, infra = Key{coreCluster, namespace, name}, Key{kindCluster, namespace, name}
	s.put(core)
	s.put(infra)
	if endpoint {
		s.put(infra, with("192.0.2.1", "spec", "controlPlaneEndpoint", "host"), with(int64(6443), "spec", "controlPlaneEndpoint", "port"))
	}
	s.put(infra, ownedBy(coreCluster, name))
	s.ingot(infra, "", finalized)
	if !endpoint {
		s.ingot(infra, "status", conditioned("EndpointReady", "False", "no endpoint"), conditioned(readyCondition, "False", "no endpoint"))
		s.put(core, conditioned(infraReady, "False", "no endpoint"))
		return core, infra
	}
	s.ingot(infra, "status", conditioned(readyCondition, "True", ""), with(true, "status", "initialization", "provisioned"))
	s.put(core, with(true, "status", "initialization", "infrastructureProvisioned"), conditioned(infraReady, "True", ""),
		with("192.0.2.1", "spec", "controlPlaneEndpoint", "host"))
	return core, infra
}

// host makes one with its Secret's name.
func (s *story) host(namespace string, n int, rack, secret string) Key {
	k := hostKey(namespace, n)
	s.put(k, labelled(map[string]string{rackLabel: rack}), with(secret, "spec", "bmc", "credentialsRef", "name"))
	s.ingot(k, "", annotated(blockMove))
	return k
}

// machine makes a Machine and its infrastructure, up to the finalizer.
func (s *story) machine(namespace, cluster, name, rack string) (core, infra Key) {
	core, infra = Key{coreMachine, namespace, name}, Key{kindMachine, namespace, name}
	labels := labelled(map[string]string{clusterLabel: cluster})
	s.put(core, labels, with(cluster, "spec", "clusterName"), ownedBy(coreCluster, cluster))
	if rack != "" {
		s.put(core, with(rack, "spec", "failureDomain"))
	}
	s.put(infra, labels)
	s.put(infra, ownedBy(coreMachine, name))
	s.ingot(infra, "", finalized)
	s.ready(core, infra, "False", "waiting")
	return core, infra
}

// ready sets the Ready condition, which core mirrors.
func (s *story) ready(core, infra Key, status, message string) {
	s.ingot(infra, "status", conditioned(readyCondition, status, message))
	s.put(core, conditioned(infraReady, status, message))
}

// install takes a machine to the n-th host, and to its Node.
func (s *story) install(core, infra Key, n int, rack, user string) {
	host := hostKey(infra.Namespace, n)
	instance := id(infra.Namespace, n)
	s.put(core, with("bootstrap", "spec", "bootstrap", "dataSecretName"))
	s.ingot(infra, "", with(instance, "spec", "providerID"))
	claim := map[string]any{"instanceID": instance[len(instance)-36:], "state": "Provisioning", "failureDomain": rack, "machineRef": map[string]any{"name": infra.Name}}
	s.ingot(host, "", with(claim, "spec", "claim"))
	s.bmc(host.Namespace+"/"+host.Name, user, "power on")
	s.ingot(infra, "status", conditioned("Installed", "False", "installing"))
	s.ingot(host, "", with("Provisioned", "spec", "claim", "state"))
	addresses := []any{map[string]any{"type": "Hostname", "address": infra.Name}, map[string]any{"type": "InternalIP", "address": "192.0.2.10"}}
	s.ingot(infra, "status", conditioned("Installed", "True", ""), conditioned(readyCondition, "True", ""), with(addresses, "status", "addresses"),
		with(true, "status", "initialization", "provisioned"), with(rack, "status", "failureDomain"))
	s.put(core, with(instance, "spec", "providerID"), with(addresses, "status", "addresses"), with(rack, "status", "failureDomain"),
		with(true, "status", "initialization", "infrastructureProvisioned"), conditioned(infraReady, "True", ""))
	s.ingot(infra, "status", conditioned("Booted", "True", ""))
	s.put(core, with(infra.Name, "status", "nodeRef", "name"))
	s.ingot(infra, "status", conditioned("Booted", "True", "again"))
	s.run.Nodes = append(s.run.Nodes, Node{Namespace: infra.Namespace, Cluster: s.objects[core].GetLabels()[clusterLabel], Name: infra.Name, ProviderID: instance, Address: "192.0.2.10"})
}

// legacy reads an object as v1beta1.
func (s *story) legacy(k Key) {
	o := s.objects[k].DeepCopy()
	set(o, provisioned(o), "status", "ready")
	if reason := failure(o, failedPermanently); reason != "" {
		set(o, reason, "status", failedPermanently)
		set(o, failure(o, "failureMessage"), "status", "failureMessage")
	}
	domains := map[string]any{}
	for _, d := range list(o, "status", "failureDomains") {
		domain := tree(d).DeepCopy()
		unset(domain, "name")
		domains[text(tree(d), "name")] = domain.Object
	}
	if len(domains) > 0 {
		set(o, domains, "status", "failureDomains")
	}
	s.run.Legacy = append(s.run.Legacy, *o)
}

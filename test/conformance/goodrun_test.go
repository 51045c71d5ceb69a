// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// goodRun is a run in which all rules hold.
func goodRun() *Run {
	s := newStory()
	s.run.Kinds = ingotKinds()
	core, infra := s.cluster("site", "c1", true)
	template := Key{kindTemplate, "site", "t1"}
	s.put(template, ownedBy(coreCluster, "c1"))
	s.ingot(template, "status", with("8", "status", "capacity", "cpu"), with("16Gi", "status", "capacity", "memory"), with("amd64", "status", "nodeInfo", "architecture"))
	s.put(Key{kindClusterTemplate, "site", "class"}, ownedBy("ClusterClass", "class"))
	s.put(Key{kindRemediationTemplate, "site", "power"})
	s.put(Key{kindHardware, "site", "h1"})
	s.put(Key{kindNetwork, "", "rack-1"})
	s.run.Endpoints = map[Key]string{infra: "192.0.2.1:6443"}
	reservation, remediation, image := Key{kindReservation, "site", "c1"}, Key{kindRemediation, "site", "m1"}, Key{kindImage, "", "debian"}
	for n, rack := range map[int]string{1: "r1", 2: "r2", 4: "r1"} {
		s.host("site", n, rack, "bmc")
	}
	s.host("tenant", 3, "r1", "bmc")
	s.bmc("tenant/h3", "other", "power on")
	s.ingot(infra, "status", with([]any{map[string]any{"name": "r1", "controlPlane": true}, map[string]any{"name": "r2"}}, "status", "failureDomains"))
	m1, im1 := s.machine("site", "c1", "m1", "r1")
	s.install(m1, im1, 1, "r1", "admin")
	m2, im2 := s.machine("site", "c1", "m2", "r2")
	s.install(m2, im2, 2, "r2", "admin")

	s.during(PowerLost, []Key{im1}, func() { s.ingot(im1, "status", conditioned(healthy, "False", "the server is off")) })
	s.ingot(im1, "status", conditioned(healthy, "True", ""))
	const memory = 16 << 30
	s.run.Servers = []Server{
		{Host: hostKey("site", 1), Rack: "r1", Powered: true, Instance: instanceOf("site", 1), CPUs: 8, MemoryBytes: memory},
		{Host: hostKey("site", 2), Rack: "r2", Powered: true, Instance: instanceOf("site", 2), CPUs: 8, MemoryBytes: memory},
		{Host: hostKey("site", 4), Rack: "r1", Blank: true, CPUs: 8, MemoryBytes: memory},
		{Host: hostKey("site", 5), Rack: "r2", Blank: true, CPUs: 8, MemoryBytes: memory},
	}
	tellRelease(s)
	tellUnknownClients(s)
	tellFailures(s)
	tellLimits(s)
	tellDeletion(s)
	s.ingot(infra, "status", conditioned("FailureDomainsReady", "True", ""))
	s.put(remediation, ownedBy(coreMachine, "m1"))
	for _, k := range []Key{reservation, remediation, image} {
		s.ingot(k, "status", conditioned(readyCondition, "True", ""))
	}
	tellPauses(s, []Key{im1, infra, hostKey("site", 1), template, reservation, remediation, image}, core)

	tellLoss(s, []Key{im1, infra, hostKey("site", 1)})
	for _, k := range []Key{im1, im2, infra, {kindMachine, "site", "failed"}} {
		s.legacy(k)
	}
	tellHooks(s)
	s.run.Commands = []Command{{Name: "init"}, {Name: "generate cluster"}}
	s.run.Moved = Moved{
		Revision: s.revision,
		Objects:  []Key{{"Secret", "site", "bmc"}},
		Global:   []Key{{kindNetwork, "", "rack-1"}, image},
	}
	for _, kind := range s.run.Kinds {
		s.run.Moved.Kinds = append(s.run.Moved.Kinds, kind.Name)
		for _, k := range s.run.keys(kind.Name) {
			if k.Namespace == "site" && !s.run.last(k).Deleted {
				s.run.Moved.Objects = append(s.run.Moved.Objects, k)
			}
		}
	}
	return s.run
}

// ingotKinds are those of the release.
func ingotKinds() []Kind {
	return []Kind{
		{kindMachine, true}, {kindTemplate, true}, {kindCluster, true}, {kindClusterTemplate, true}, {kindHost, true}, {kindHardware, true},
		{kindNetwork, false}, {kindImage, false}, {kindReservation, true}, {kindRemediation, true}, {kindRemediationTemplate, true},
	}
}

// tellLoss takes the status of objects away, and has it back.
func tellLoss(s *story, objects []Key) {
	s.during(StatusLost, objects, func() {
		for _, k := range objects {
			before := s.objects[k].DeepCopy()
			s.put(k, func(o *unstructured.Unstructured) { unset(o, "status") })
			s.ingot(k, "status", with(before.Object["status"], "status"))
			s.rebuilt(before)
		}
	})
}

// rebuilt writes down that an object has its status again.
func (s *story) rebuilt(before *unstructured.Unstructured) {
	s.run.Rebuilt = append(s.run.Rebuilt, Rebuilt{Before: *before, After: *s.objects[keyOf(before)].DeepCopy()})
}

// tellRelease lets a machine go whose BMC fails for a while.
func tellRelease(s *story) {
	core, infra := s.machine("site", "c1", "m4", "r1")
	s.install(core, infra, 4, "r1", "admin")
	s.put(infra, s.deleting)
	s.during(FailingRelease, []Key{infra}, func() {
		s.ready(core, infra, "False", "the BMC does not answer")
	})
	s.bmc("site/h4", "admin", "Reset ForceOff")
	s.ingot(hostKey("site", 4), "", func(o *unstructured.Unstructured) { unset(o, "spec", "claim") })
	s.ingot(infra, "", unfinalized)
	s.gone(infra)
	s.gone(core)
}

// unrelatedObjects has objects that are nobody's.
func tellUnknownClients(s *story) {
	alone := Key{kindMachine, "unknowns", "alone"}
	s.during(Unowned, []Key{alone}, func() { s.put(alone); s.gone(alone) })
	stray := Key{kindMachine, "unknowns", "stray"}
	s.during(NoCluster, []Key{stray}, func() {
		s.put(Key{coreMachine, "unknowns", "stray"}, with("nowhere", "spec", "clusterName"))
		s.put(stray, ownedBy(coreMachine, "stray"), labelled(map[string]string{clusterLabel: "nowhere"}))
	})
	lonely := Key{kindCluster, "unknowns", "lonely"}
	s.during(UnownedCluster, []Key{lonely}, func() { s.put(lonely); s.gone(lonely) })
	external := Key{kindCluster, "unknowns", "external"}
	s.during(External, []Key{external}, func() {
		s.put(external, ownedBy(coreCluster, "external"), annotated(managedBy))
		s.put(external, with("192.0.2.7", "spec", "controlPlaneEndpoint", "host"), with(true, "status", "initialization", "provisioned"))
		s.put(Key{coreCluster, "unknowns", "external"}, with("192.0.2.7", "spec", "controlPlaneEndpoint", "host"), with(true, "status", "initialization", "infrastructureProvisioned"))
	})
}

// tellFailures has what does not go on.
func tellFailures(s *story) {
	_, waiting := s.cluster("site", "c2", false)
	s.during(NoEndpoint, []Key{waiting}, func() {})
	core, early := s.machine("site", "c2", "early", "")
	s.during(Unprepared, []Key{early}, func() {})
	s.during(NotReady, []Key{early}, func() {
		s.put(early, s.deleting)
		s.ingot(early, "", unfinalized)
		s.gone(early)
		s.gone(core)
	})
	core, nowhere := s.machine("site", "c1", "nowhere", "r9")
	s.during(Impossible, []Key{nowhere}, func() {
		s.ingot(nowhere, "status", conditioned("HostClaimed", "False", "no host in r9"))
		s.ready(core, nowhere, "False", "no host in r9")
	})
	core, failed := s.machine("site", "c1", "failed", "")
	s.during(Terminal, []Key{failed}, func() {
		s.ingot(failed, "status", with("CreateError", "status", "deprecated", "v1beta1", failedPermanently), with("no such disk", "status", "deprecated", "v1beta1", "failureMessage"))
		s.ready(core, failed, "False", "no such disk")
	})
}

// tellLimits has a manager that looks at some objects only.
func tellLimits(s *story) {
	for own, foreign := range map[string]string{OwnNamespace: ForeignNamespace, OwnFilter: ForeignFilter} {
		namespace := map[string]string{OwnNamespace: "mine", OwnFilter: "labelled"}[own]
		kinds := map[string]string{kindTemplate: namespace, kindHost: namespace, kindReservation: namespace, kindRemediation: namespace, kindImage: ""}
		mine, others := []Key{{kindCluster, namespace, "c"}, {kindMachine, namespace, "m"}}, []Key{{kindCluster, namespace + "-not", "c"}, {kindMachine, namespace + "-not", "m"}}
		for kind, namespace := range kinds {
			mine = append(mine, Key{kind, namespace, own})
			others = append(others, Key{kind, namespace, foreign})
		}
		s.during(own, mine, func() {
			s.cluster(namespace, "c", true)
			s.machine(namespace, "c", "m", "")
			for _, k := range mine[2:] {
				s.put(k, ownedBy(coreCluster, "c"))
				s.ingot(k, "status", conditioned(pausedCondition, "False", ""))
			}
		})
		s.during(foreign, others, func() {
			s.put(others[0], ownedBy(coreCluster, "c"))
			s.put(others[1], ownedBy(coreMachine, "m"))
			for _, k := range others[2:] {
				s.put(k)
			}
		})
	}
}

// tellDeletion has a cluster that goes with its machine.
func tellDeletion(s *story) {
	core, infra := s.cluster("site", "c3", true)
	s.host("site", 5, "r2", "bmc")
	machine, im := s.machine("site", "c3", "d", "")
	s.install(machine, im, 5, "r2", "admin")
	s.put(core, s.deleting)
	s.put(infra, s.deleting)
	s.during(ClusterDeletion, []Key{infra, im}, func() {
		s.ingot(infra, "status", conditioned(readyCondition, "False", "machines remain"))
		s.put(im, s.deleting)
		s.ready(machine, im, "False", "releasing")
	})
	s.bmc("site/h5", "admin", "Reset GracefulShutdown")
	s.ingot(im, "", unfinalized)
	s.gone(im)
	s.gone(machine)
	s.gone(hostKey("site", 5))
	s.ingot(infra, "", unfinalized)
	s.gone(infra)
	s.gone(core)
}

// tellPauses pauses objects by annotation, without a status, and then their Cluster.
func tellPauses(s *story, objects []Key, core Key) {
	paused := func(k Key, status string) { s.ingot(k, "status", conditioned(pausedCondition, status, "")) }
	before := map[Key]*unstructured.Unstructured{}
	s.during(StatusTaken, objects, func() {
		for _, k := range objects {
			paused(k, "False")
			before[k] = s.objects[k].DeepCopy()
			s.put(k, annotated(pausedAnnotation))
			paused(k, "True")
			s.put(k, func(o *unstructured.Unstructured) { unset(o, "status") })
			paused(k, "True")
		}
		s.during(PausedObject, objects, func() {
			for _, k := range objects {
				s.put(k)
			}
		})
		for _, k := range objects {
			s.put(k, notAnnotated)
			s.ingot(k, "status", with(before[k].Object["status"], "status"))
			s.rebuilt(before[k])
		}
	})
	s.ingot(hostKey("site", 1), "", annotated(blockMove))
	s.during(PausedCluster, objects, func() {
		s.put(core, with(true, "spec", "paused"))
		for _, k := range objects {
			s.put(k)
			paused(k, "True")
		}
		s.ingot(hostKey("site", 1), "", notAnnotated)
	})
	s.put(core, with(false, "spec", "paused"))
	for _, k := range objects {
		paused(k, "False")
	}
}

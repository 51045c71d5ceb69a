// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"encoding/json"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// oneEach is a control plane of three over three racks.
var oneEach = map[string]int{"a": 1, "b": 1, "c": 1}

// noSpare: every host is in use, one for each rack. Templates are rotated and the
// version changed by the template's own settings, which need no other host.
func noSpare(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", controlPlane}, place{3, "c", controlPlane}, place{4, "d", worker}, place{5, "e", worker})
	c := s.create(t, site.Cluster{Name: "packed", ControlPlanes: 3, Workers: 2, Kubernetes: older})
	s.spread(t, c, oneEach)

	controlPlanes, workers := s.machines(t, c)
	s.rotateControlPlane(t, c, "2", c.Kubernetes, cleaned)
	s.rotateWorkers(t, c, "2", c.Kubernetes, cleaned)
	s.Await(t, "control plane and workers rotated", s.replaced(c, append(controlPlanes, workers...)))
	s.spread(t, c, oneEach)
	s.versions(t, c, older)

	url, checksum := s.World.Image(t, newer)
	image := func(spec *infrav1.IngotMachineSpec) { spec.Image.URL, spec.Image.Checksum = url, checksum }
	controlPlanes, workers = s.machines(t, c)
	s.rotateControlPlane(t, c, "3", newer, image)
	s.Await(t, "control plane upgraded", s.replaced(c, controlPlanes))
	s.spread(t, c, oneEach)
	s.rotateWorkers(t, c, "3", newer, image)
	s.Await(t, "workers upgraded", s.replaced(c, workers))
	s.versions(t, c, newer)
	s.end(t, c)
}

// cleaned is a change of a template that changes nothing else: it says what is so
// by default.
func cleaned(spec *infrav1.IngotMachineSpec) { spec.Cleaning = infrav1.CleaningMetadata }

// rotateControlPlane gives the control plane a copy of its first template, and a version.
func (s *scene) rotateControlPlane(t *testing.T, c site.Cluster, generation, version string, edit func(*infrav1.IngotMachineSpec)) {
	t.Helper()
	name := c.Name + "-control-plane"
	s.copyTemplate(t, name, name+"-"+generation, edit)
	s.patch(t, "kubeadmcontrolplane", name, `{"spec":{"version":%q,"machineTemplate":{"spec":{"infrastructureRef":{"name":%q}}}}}`, version, name+"-"+generation)
}

// rotateWorkers gives the workers a copy of their first template, and a version.
func (s *scene) rotateWorkers(t *testing.T, c site.Cluster, generation, version string, edit func(*infrav1.IngotMachineSpec)) {
	t.Helper()
	name := c.Name + "-md-0"
	s.copyTemplate(t, name, name+"-"+generation, edit)
	s.patch(t, "machinedeployment", name, `{"spec":{"template":{"spec":{"version":%q,"infrastructureRef":{"name":%q}}}}}`, version, name+"-"+generation)
}

// topology is noSpare by a ClusterClass: the Cluster alone is changed.
func topology(t *testing.T, s *scene) {
	s.register(t, place{1, "a", controlPlane}, place{2, "b", controlPlane}, place{3, "c", controlPlane}, place{4, "d", worker})
	c := s.create(t, site.Cluster{Name: "classy", Flavor: "clusterclass", ControlPlanes: 3, Workers: 1, Kubernetes: older})
	s.spread(t, c, oneEach)

	// Built anew, by another address.
	url, checksum := s.World.Image(t, older)
	controlPlanes, workers := s.machines(t, c)
	s.changeTopology(t, c, older, url+"?build=2", checksum)
	s.Await(t, "image changed", s.replaced(c, append(controlPlanes, workers...)))
	s.spread(t, c, oneEach)
	s.versions(t, c, older)

	url, checksum = s.World.Image(t, newer)
	controlPlanes, workers = s.machines(t, c)
	s.changeTopology(t, c, newer, url, checksum)
	s.Await(t, "version changed", s.replaced(c, append(controlPlanes, workers...)))
	s.spread(t, c, oneEach)
	s.versions(t, c, newer)
	s.end(t, c)
}

// changeTopology sets version and image in one.
func (s *scene) changeTopology(t *testing.T, c site.Cluster, version, url, checksum string) {
	t.Helper()
	cluster := &clusterv1.Cluster{}
	must(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: c.Name}, cluster))
	before := cluster.DeepCopy()
	image, err := json.Marshal(map[string]string{"url": url, "checksum": checksum})
	must(t, err)
	cluster.Spec.Topology.Version = version
	for i := range cluster.Spec.Topology.Variables {
		if v := &cluster.Spec.Topology.Variables[i]; v.Name == "image" {
			v.Value = apiextensionsv1.JSON{Raw: image}
		}
	}
	must(t, s.Client.Patch(t.Context(), cluster, client.MergeFrom(before)))
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/site"
)

// class is the ClusterClass that the idle namespace has, for the kinds that only topologies
// use.
const class = "clusterclass-ingot.yaml"

// nowhere is where nothing listens: nothing of these samples has a server.
const nowhere = "127.0.0.1"

// reserving asks for one host of a rack.
func reserving(rack string) func(*unstructured.Unstructured) {
	return with([]any{map[string]any{"name": "md-0", "count": int64(1), "failureDomains": []any{rack}}}, "spec", "groups")
}

// ownedByObject makes an object that is there the owner.
func ownedByObject(owner *unstructured.Unstructured) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: owner.GetAPIVersion(), Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID()}})
	}
}

// port that nothing listens on, another one each time: two hosts of one BMC are one server.
func (r *recorder) port() int {
	r.ports++
	return r.ports
}

// samples makes one object of each kind that is reconciled: of a Cluster in a namespace,
// whose machine has no host. mark changes each of them before it is made; nil: nothing does.
func (r *recorder) samples(t *testing.T, namespace string, mark func(*unstructured.Unstructured)) []Key {
	t.Helper()
	r.mark = mark
	defer func() { r.mark = nil }()
	cluster := r.makeCluster(t, namespace, "c", endpoint)
	machine := r.makeMachine(t, namespace, "c", "m")
	core, err := r.get(t.Context(), Key{coreCluster, namespace, "c"})
	check(t, err)
	coreMachine, err := r.get(t.Context(), Key{coreMachine, namespace, "m"})
	check(t, err)
	template, reservation, remediation := Key{kindTemplate, namespace, "t"}, Key{kindReservation, namespace, "c"}, Key{kindRemediation, namespace, "m"}
	image := Key{kindImage, "", "image-of-" + namespace}
	r.create(t, template, ownedByObject(core), with(machineSpec(), "spec", "template", "spec"))
	r.create(t, reservation, reserving("rack-9"))
	r.create(t, remediation, ownedByObject(coreMachine), with(map[string]any{"retryLimit": int64(1)}, "spec"))
	r.create(t, image, with(map[string]any{
		"kubernetesVersion": site.DefaultKubernetes, "os": "debian-12", "architecture": "amd64",
		"url": fmt.Sprintf("http://%s:%d/os.raw.zst", nowhere, r.port()), "checksum": machineSpec()["image"].(map[string]any)["checksum"],
	}, "spec"))
	return []Key{cluster, machine, template, reservation, remediation, image, r.sampleHost(t, namespace)}
}

// sampleHost makes a host whose BMC does not answer.
func (r *recorder) sampleHost(t *testing.T, namespace string) Key {
	t.Helper()
	r.site.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bmc"}, Data: map[string][]byte{
		infrav1.SecretKeyUsername: []byte("nobody"), infrav1.SecretKeyPassword: []byte("listens"),
	}})
	host := Key{kindHost, namespace, "h"}
	port := r.port()
	r.create(t, host, with(map[string]any{
		"bmc":            map[string]any{"address": fmt.Sprintf("redfish://%s:%d", nowhere, port), "credentialsRef": map[string]any{"name": "bmc"}},
		"bootMACAddress": fmt.Sprintf("02:00:00:00:bb:%02x", port), "bootMode": "UEFI", "networkRef": map[string]any{"name": site.Network},
	}, "spec"))
	return host
}

// makeIdle makes samples that stay, and a ClusterClass with its templates.
func (r *recorder) makeIdle(t *testing.T) {
	t.Helper()
	namespace := r.namespaceFor(t, "idle")
	idle := r.samples(t, namespace, nil)
	r.site.Kubectl(t, "apply", "--namespace", namespace, "--filename", filepath.Join(r.site.Release.Dir, class))
	r.hope(t, "idle objects that are reconciled", r.is("reconciled", idle, hasStatus))
	r.await(t, "the class to own its templates", r.is("owned", []Key{{kindClusterTemplate, namespace, "ingot"}}, func(o *unstructured.Unstructured) bool {
		return owner(o, "ClusterClass") != ""
	}))
	r.idle = idle
}

// hasStatus reports whether a controller has written to an object.
func hasStatus(o *unstructured.Unstructured) bool { return value(o, "status") != nil }

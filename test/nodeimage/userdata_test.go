// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
)

// nodeEndpoint is an address that nobody has but kube-vip.
const nodeEndpoint = "192.0.2.10"

// reportScript runs after kubeadm, as an operator would go on: a network plugin of
// the node's own pods, and then waiting. What it sees it sends to the sink.
const reportScript = `#!/bin/bash
export KUBECONFIG=/etc/kubernetes/admin.conf
send() { curl -sS --retry 5 --retry-all-errors --max-time 60 -T - http://192.0.2.1:8000/$1; }
date | send kubeadm
until cidr=$(kubectl get node server-1 -o jsonpath={.spec.podCIDR}) && [ -n "$cidr" ]; do sleep 1; done
mkdir -p /etc/cni/net.d
cat >/etc/cni/net.d/10-pods.conflist <<T
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$cidr"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
T
kubectl wait --for=condition=Ready node/server-1 --timeout=900s
kubectl get node server-1 -o json | send node
kubectl -n kube-system wait --for=condition=Ready pod --all --timeout=900s
kubectl -n kube-system get pods -o json | send pods
`

// failureScript tells why kubeadm did not come to an end.
const failureScript = `#!/bin/bash
{ cat /var/log/cloud-init-output.log; journalctl -b --no-pager -u kubelet -u containerd | tail -n 120; } 2>&1 |
  curl -sS --retry 5 --retry-all-errors --max-time 60 -T - http://192.0.2.1:8000/failure
`

// controlPlaneUserData is the shipped template's control plane as user data: what
// kubeadm's bootstrap provider makes of it for the first server, but for the keys,
// which kubeadm makes itself.
func controlPlaneUserData(t *testing.T, version string) string {
	t.Helper()
	kcp := templateControlPlane(t, version)
	spec := kcp.Spec.KubeadmConfigSpec
	type file struct {
		Path        string `json:"path"`
		Owner       string `json:"owner,omitempty"`
		Permissions string `json:"permissions"`
		Content     string `json:"content"`
	}
	files := []file{
		{Path: "/run/kubeadm/kubeadm.yaml", Permissions: "0640", Content: kubeadmConfig(t, kcp)},
		{Path: "/run/report", Permissions: "0755", Content: reportScript},
		{Path: "/run/failure", Permissions: "0755", Content: failureScript},
	}
	for _, f := range spec.Files {
		files = append(files, file{Path: f.Path, Owner: f.Owner, Permissions: f.Permissions, Content: f.Content})
	}
	commands := []string{"curl -sS -T /etc/hostname http://192.0.2.1:8000/cloud-init"}
	commands = append(commands, spec.PreKubeadmCommands...)
	commands = append(commands, "kubeadm init --config /run/kubeadm/kubeadm.yaml && /run/report || /run/failure")
	config, err := yaml.Marshal(map[string]any{"write_files": files, "runcmd": commands})
	if err != nil {
		t.Fatal(err)
	}
	return "## template: jinja\n#cloud-config\n" + string(config)
}

// templateControlPlane is that of templates/cluster-template.yaml, by clusterctl's
// own substitution.
func templateControlPlane(t *testing.T, version string) *controlplanev1.KubeadmControlPlane {
	t.Helper()
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile(filepath.Join(set.Root(), "templates", "cluster-template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{
		"CLUSTER_NAME": "c1", "NAMESPACE": "dc1", "KUBERNETES_VERSION": version,
		"CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "0",
		"CONTROL_PLANE_ENDPOINT_HOST": nodeEndpoint, "INGOT_KUBE_VIP_IMAGE": kubeVIPImage(t, version),
		"INGOT_IMAGE_URL": "http://images.example/disk.raw.zst", "INGOT_IMAGE_CHECKSUM": "sha256:" + strings.Repeat("0", 64),
	}
	filled, err := yamlprocessor.NewSimpleProcessor().Process(template, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}
		return "", fmt.Errorf("no value for %s", name)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range bytes.Split(filled, []byte("\n---\n")) {
		kcp := &controlplanev1.KubeadmControlPlane{}
		if err := yaml.Unmarshal(document, kcp); err != nil {
			t.Fatal(err)
		}
		if kcp.Kind == "KubeadmControlPlane" {
			return kcp
		}
	}
	t.Fatal("the template has no control plane")
	return nil
}

// kubeVIPImage is the one that the disk holds.
func kubeVIPImage(t *testing.T, version string) string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(nodeImage(t, version), "images.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(names)) {
		if strings.Contains(name, "/kube-vip:") {
			return name
		}
	}
	t.Fatalf("no kube-vip in the image: %s", names)
	return ""
}

// kubeadmConfig is the configuration of "kubeadm init". The fields of the control
// plane's specification are those of kubeadm's own v1beta4.
func kubeadmConfig(t *testing.T, kcp *controlplanev1.KubeadmControlPlane) string {
	t.Helper()
	data, err := yaml.Marshal(kcp.Spec.KubeadmConfigSpec.InitConfiguration)
	if err != nil {
		t.Fatal(err)
	}
	initConfiguration := map[string]any{}
	if err := yaml.Unmarshal(data, &initConfiguration); err != nil {
		t.Fatal(err)
	}
	initConfiguration["apiVersion"], initConfiguration["kind"] = "kubeadm.k8s.io/v1beta4", "InitConfiguration"
	if err := unstructured.SetNestedField(initConfiguration, "IfNotPresent", "nodeRegistration", "imagePullPolicy"); err != nil {
		t.Fatal(err)
	}
	clusterConfiguration := map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
		"clusterName": "c1", "kubernetesVersion": kcp.Spec.Version, "controlPlaneEndpoint": nodeEndpoint + ":6443",
		"networking": map[string]any{"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.128.0.0/12", "dnsDomain": "cluster.local"},
	}
	var b strings.Builder
	for _, document := range []map[string]any{initConfiguration, clusterConfiguration} {
		text, err := yaml.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(text))
	}
	return b.String()
}

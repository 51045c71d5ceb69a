// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/test/nodeimage"
)

const (
	// endpoint is an address that nobody has but kube-vip.
	endpoint = "192.0.2.10"
	// providerID is what the seed's meta-data say, as the agent writes it.
	providerID = "ingot://dc1/server-1/0d7c1c0c-6a4e-4c9e-8a64-8f2f5a9c1b11"
	hostName   = "server-1"
)

// template is templates/<name> of a cluster c1.
func template(t *testing.T, name, version, kubeVIP string) *nodeimage.Template {
	t.Helper()
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	read, err := nodeimage.Read(filepath.Join(set.Root(), "templates", name), map[string]string{
		"CLUSTER_NAME": "c1", "NAMESPACE": "dc1", "KUBERNETES_VERSION": version,
		"CONTROL_PLANE_MACHINE_COUNT": "3", "WORKER_MACHINE_COUNT": "1",
		"CONTROL_PLANE_ENDPOINT_HOST": endpoint, "CONTROL_PLANE_ENDPOINT_PORT": "7443",
		"POD_CIDR": `["10.244.0.0/16"]`, "INGOT_KUBE_VIP_IMAGE": kubeVIP,
		"INGOT_IMAGE_URL": "http://images.example/disk.raw.zst", "INGOT_IMAGE_CHECKSUM": "sha256:" + strings.Repeat("0", 64),
	})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// A system is what cloud-init makes of user data, below a directory.
type system struct {
	root     string
	commands []string
}

// apply fills in the instance metadata, writes files and returns commands, as
// cloud-init does. Paths in commands are left as they are.
func apply(t *testing.T, userData string) system {
	t.Helper()
	text := strings.NewReplacer("{{ ds.meta_data.local_hostname }}", hostName, "{{ ds.meta_data.provider_id }}", providerID).Replace(userData)
	if !strings.HasPrefix(text, "## template: jinja\n#cloud-config\n") || strings.Contains(text, "{{") {
		t.Fatalf("not user data of known variables:\n%.2000s", text)
	}
	var config struct {
		WriteFiles []struct{ Path, Content, Permissions, Owner, Encoding string } `json:"write_files"`
		RunCmd     []string                                                       `json:"runcmd"`
	}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	s := system{root: t.TempDir(), commands: config.RunCmd}
	for _, f := range config.WriteFiles {
		path := filepath.Join(s.root, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.Content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s system) read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// kubeadmTakes has the real kubeadm check a configuration, unknown fields included.
func (s system) kubeadmTakes(t *testing.T, path string) {
	t.Helper()
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	kubeadm, err := set.Binary("kubeadm")
	if err != nil {
		t.Skip(err)
	}
	out, err := exec.Command(kubeadm, "config", "validate", "--config", filepath.Join(s.root, path)).CombinedOutput()
	if err != nil {
		t.Errorf("kubeadm: %v\n%s\n%s", err, out, s.read(t, path))
	}
	if strings.Contains(string(out), "unknown field") {
		t.Errorf("kubeadm warns: %s", out)
	}
}

// identity is what a kubeadm configuration says of the Node.
type identity struct{ Name, ProviderID string }

// document returns the one of a kind.
func document[T any](t *testing.T, text, kind string) T {
	t.Helper()
	var found T
	for _, part := range strings.Split("\n"+text, "\n---") {
		var meta struct{ Kind string }
		if err := yaml.Unmarshal([]byte(part), &meta); err != nil {
			t.Fatal(err)
		}
		if meta.Kind == kind {
			if err := yaml.Unmarshal([]byte(part), &found); err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
	t.Fatalf("no %s in\n%s", kind, text)
	return found
}

// registration is what is read of InitConfiguration and JoinConfiguration.
type registration struct {
	NodeRegistration struct {
		Name             string
		KubeletExtraArgs []struct{ Name, Value string }
	}
	LocalAPIEndpoint struct{ BindPort int }
	Timeouts         struct{ KubernetesAPICall string }
	ControlPlane     *struct{ LocalAPIEndpoint struct{ BindPort int } }
}

func (r registration) identity() identity {
	id := identity{Name: r.NodeRegistration.Name}
	for _, arg := range r.NodeRegistration.KubeletExtraArgs {
		if arg.Name == "provider-id" {
			id.ProviderID = arg.Value
		}
	}
	return id
}

var discovery = bootstrapv1.BootstrapTokenDiscovery{
	Token: "abcdef.0123456789abcdef", CACertHashes: []string{"sha256:" + strings.Repeat("ab", 32)},
}

// Every way by which a server becomes a Node: kubeadm takes the configuration, and
// name and provider ID are those of the instance metadata.
func TestUserData(t *testing.T) {
	want := identity{Name: hostName, ProviderID: providerID}
	for _, name := range []string{"cluster-template.yaml", "cluster-template-external-endpoint.yaml"} {
		for _, version := range []string{"v1.36.3", "v1.35.4"} {
			shipped := template(t, name, version, "kube-vip:test")
			for _, role := range []struct {
				name, kind, config string
				render             func() (string, error)
			}{
				{"init", "InitConfiguration", "/run/kubeadm/kubeadm.yaml", func() (string, error) { return shipped.Init(nodeimage.Addition{}) }},
				{"join of a control plane", "JoinConfiguration", "/run/kubeadm/kubeadm-join-config.yaml", func() (string, error) {
					return shipped.JoinControlPlane(discovery, nodeimage.Addition{})
				}},
				{"worker", "JoinConfiguration", "/run/kubeadm/kubeadm-join-config.yaml", func() (string, error) {
					return shipped.Join(discovery, nodeimage.Addition{})
				}},
			} {
				t.Run(fmt.Sprintf("%s/%s/%s", name, version, role.name), func(t *testing.T) {
					userData, err := role.render()
					if err != nil {
						t.Fatal(err)
					}
					s := apply(t, userData)
					s.kubeadmTakes(t, role.config)
					got := document[registration](t, s.read(t, role.config), role.kind)
					if diff := cmp.Diff(want, got.identity()); diff != "" {
						t.Errorf("Node (-want +got):\n%s", diff)
					}
				})
			}
		}
	}
}

// The cluster that kubeadm makes is the one of the Cluster object, at the endpoint.
func TestClusterConfiguration(t *testing.T) {
	userData, err := template(t, "cluster-template.yaml", "v1.36.3", "kube-vip:test").Init(nodeimage.Addition{})
	if err != nil {
		t.Fatal(err)
	}
	text := apply(t, userData).read(t, "/run/kubeadm/kubeadm.yaml")
	type configuration struct {
		ClusterName, KubernetesVersion, ControlPlaneEndpoint string
		Networking                                           struct{ PodSubnet, ServiceSubnet, DNSDomain string }
	}
	want := configuration{ClusterName: "c1", KubernetesVersion: "v1.36.3", ControlPlaneEndpoint: endpoint + ":7443"}
	want.Networking.PodSubnet, want.Networking.ServiceSubnet, want.Networking.DNSDomain = "10.244.0.0/16", "10.128.0.0/12", "cluster.local"
	if diff := cmp.Diff(want, document[configuration](t, text, "ClusterConfiguration")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	first := document[registration](t, text, "InitConfiguration")
	if port := first.LocalAPIEndpoint.BindPort; port != 7443 {
		t.Errorf("the API server listens on %d: the virtual address leads to 7443", port)
	}
	if patience := first.Timeouts.KubernetesAPICall; patience != "5m0s" {
		t.Errorf("kubeadm waits %q for the API server", patience)
	}
}

// kube-vip reads super-admin.conf where kubeadm makes the cluster, since admin.conf
// has no rights yet when the address is first needed; and admin.conf everywhere
// else, where there is no other. The commands of the user data run here.
func TestKubeVIPCredentials(t *testing.T) {
	shipped := template(t, "cluster-template.yaml", "v1.36.3", "kube-vip:test")
	for _, role := range []struct {
		name, want string
		render     func() (string, error)
	}{
		{"init", "/etc/kubernetes/super-admin.conf", func() (string, error) { return shipped.Init(nodeimage.Addition{}) }},
		{"join", "/etc/kubernetes/admin.conf", func() (string, error) {
			return shipped.JoinControlPlane(discovery, nodeimage.Addition{})
		}},
	} {
		t.Run(role.name, func(t *testing.T) {
			userData, err := role.render()
			if err != nil {
				t.Fatal(err)
			}
			s := apply(t, userData)
			for _, command := range s.commands {
				if strings.HasPrefix(command, "kubeadm ") {
					break
				}
				command = strings.NewReplacer(" /run/", " "+s.root+"/run/", " /etc/kubernetes/manifests/", " "+s.root+"/etc/kubernetes/manifests/").Replace(command)
				if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", command, err, out)
				}
			}
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict([]byte(s.read(t, "/etc/kubernetes/manifests/kube-vip.yaml")), &pod); err != nil {
				t.Fatal(err)
			}
			if got := pod.Spec.Volumes[0].HostPath.Path; got != role.want {
				t.Errorf("kube-vip reads %s, want %s", got, role.want)
			}
			if mount := pod.Spec.Containers[0].VolumeMounts[0].MountPath; mount != "/etc/kubernetes/admin.conf" {
				t.Errorf("kube-vip finds it at %s", mount)
			}
		})
	}
}

func TestReadNamesWhatIsMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "template.yaml")
	for text, want := range map[string]string{
		"kind: Cluster\nmetadata: {name: \"${NAME}\"}\n": "NAME",
		"kind: Cluster\nmetadata: {name: a}\n":           "has no",
		"kind: Cluster\nmetadta: {}\n":                   "metadta",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := nodeimage.Read(path, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"

	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/test/needs"
)

var errUnset = errors.New("not set")

// installed returns the objects that clusterctl applies for the provider and the boot servers.
func installed(t *testing.T, variables map[string]string) []unstructured.Unstructured {
	t.Helper()
	return append(rendered(t, "default", variables), rendered(t, "boot", variables)...)
}

// kustomized renders each directory of config once, because that takes seconds.
var kustomized = map[string]func() ([]byte, error){
	"default": sync.OnceValues(func() ([]byte, error) { return kustomize("default") }),
	"boot":    sync.OnceValues(func() ([]byte, error) { return kustomize("boot") }),
}

func kustomize(dir string) ([]byte, error) {
	set, err := tools.Open()
	if err != nil {
		return nil, err
	}
	kubectl, err := set.Binary("kubectl")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(context.Background(), kubectl, "kustomize", filepath.Join(set.Root(), "config", dir)).Output()
}

// rendered renders a directory of config.
func rendered(t *testing.T, dir string, variables map[string]string) []unstructured.Unstructured {
	t.Helper()
	needs.Tools(t, "kubectl")
	out, err := kustomized[dir]()
	if err != nil {
		t.Fatalf("kustomize: %v", err)
	}
	processed, err := yamlprocessor.NewSimpleProcessor().Process(out, func(name string) (string, error) {
		if value, ok := variables[name]; ok {
			return value, nil
		}
		return "", errUnset
	})
	if err != nil {
		t.Fatalf("every variable has a default (K26): %v", err)
	}
	objects, err := utilyaml.ToUnstructured(processed)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// find returns the object of a kind and name.
func find[T any](t *testing.T, objects []unstructured.Unstructured, kind, name string) *T {
	t.Helper()
	for _, object := range objects {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		out := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, out, true); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return out
	}
	t.Fatalf("no %s %s", kind, name)
	return nil
}

// expand does what the kubelet does with $(NAME).
func expand(args []string, environment map[string]string) []string {
	var pairs []string
	for name, value := range environment {
		pairs = append(pairs, "$("+name+")", value)
	}
	out := make([]string, 0, len(args))
	for _, arg := range args {
		out = append(out, strings.NewReplacer(pairs...).Replace(arg))
	}
	return out
}

// podEnvironment is what the Pods' env entries amount to on some node.
func podEnvironment(container corev1.Container) map[string]string {
	out := map[string]string{}
	facts := map[string]string{
		"metadata.namespace": "ingot-system", "metadata.name": "pod-1", "metadata.uid": "6a1df0ce",
		"spec.serviceAccountName": "ingot-controller-manager", "status.hostIP": "192.0.2.10",
	}
	for _, entry := range container.Env {
		out[entry.Name] = entry.Value
		if entry.ValueFrom != nil {
			out[entry.Name] = facts[entry.ValueFrom.FieldRef.FieldPath]
		}
	}
	return out
}

// optionsOf parses the arguments of a Deployment as the binary would.
func optionsOf(t *testing.T, deployment *appsv1.Deployment) *Options {
	t.Helper()
	container := deployment.Spec.Template.Spec.Containers[0]
	options := DefaultOptions()
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	options.AddFlags(fs)
	if err := fs.Parse(expand(container.Args, podEnvironment(container))); err != nil {
		t.Fatalf("%s: %v", deployment.Name, err)
	}
	return options
}

// The arguments of the two Deployments are valid, with and without variables.
func TestDeploymentArguments(t *testing.T) {
	type seen struct {
		Roles                        []string
		ManagerUsername, Namespace   string
		KeySecret, KeyDir            string
		LeaderElect, Proxy           bool
		Upstream, Address, Interface string
		IPv6                         string
		Health, Diagnostics          string
		InsecureDiagnostics          bool
		Replicas                     int32
	}
	for name, tc := range map[string]struct {
		variables     map[string]string
		manager, boot seen
	}{
		"defaults": {
			manager: seen{Roles: []string{"controllers"}, ManagerUsername: "system:serviceaccount:ingot-system:ingot-controller-manager",
				KeySecret: "ingot-system/ingot-agent-keys", LeaderElect: true, Proxy: true, Health: ":9440", Diagnostics: ":8443", Replicas: 1},
			boot: seen{Roles: []string{"boot"}, KeyDir: "/etc/ingot/agent", Upstream: "ingot-agent.ingot-system.svc:8843", Address: "192.0.2.10",
				Health: "127.0.0.1:8881", Diagnostics: "127.0.0.1:8882", InsecureDiagnostics: true, Replicas: 1},
		},
		"all set": {
			variables: map[string]string{"INGOT_BOOT_ADDRESS": "198.51.100.1", "INGOT_BOOT_INTERFACE": "eth1", "INGOT_BOOT_IPV6_ADDRESS": "auto",
				"INGOT_DIAGNOSTICS_ADDRESS": "localhost:8080", "INGOT_INSECURE_DIAGNOSTICS": "true"},
			manager: seen{Roles: []string{"controllers"}, ManagerUsername: "system:serviceaccount:ingot-system:ingot-controller-manager",
				KeySecret: "ingot-system/ingot-agent-keys", LeaderElect: true, Proxy: true, Health: ":9440",
				Diagnostics: "localhost:8080", InsecureDiagnostics: true, Replicas: 1},
			boot: seen{Roles: []string{"boot"}, KeyDir: "/etc/ingot/agent", Upstream: "ingot-agent.ingot-system.svc:8843", Address: "198.51.100.1", Interface: "eth1", IPv6: "auto",
				Health: "127.0.0.1:8881", Diagnostics: "127.0.0.1:8882", InsecureDiagnostics: true, Replicas: 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := installed(t, tc.variables)
			for deployment, want := range map[string]seen{"ingot-controller-manager": tc.manager, "ingot-boot": tc.boot} {
				d := find[appsv1.Deployment](t, objects, "Deployment", deployment)
				o := optionsOf(t, d)
				if err := o.Validate(); err != nil {
					t.Errorf("%s: %v", deployment, err)
				}
				got := seen{o.Roles, "", o.Namespace, o.AgentKeySecret, o.AgentKeyDir, o.LeaderElect, o.AgentProxyProtocol, o.AgentUpstream,
					o.BootAddress, o.BootInterface, o.BootIPv6, o.HealthAddress, o.Manager.DiagnosticsAddress, o.Manager.InsecureDiagnostics, *d.Spec.Replicas}
				if o.Has(RoleControllers) {
					got.ManagerUsername = o.ManagerUsername
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", deployment, diff)
				}
			}
		})
	}
}

// Ports, probes and Services match the ports of the binary.
func TestDeploymentPorts(t *testing.T) {
	objects := installed(t, nil)
	for name, want := range map[string]map[string]int32{
		"ingot-controller-manager": {"webhook-server": 9443, "agent": 8843, "diagnostics": 8443, "healthz": 9440},
		"ingot-boot":               {"dhcp": 67, "dhcpv6": 547, "tftp": 69, "binl": 4011, "boot-http": 8880, "agent": 8843, "healthz": 8881, "diagnostics": 8882},
	} {
		pod := find[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec
		got := map[string]int32{}
		for _, port := range pod.Containers[0].Ports {
			got[port.Name] = port.ContainerPort
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, probe := range []*corev1.Probe{pod.Containers[0].LivenessProbe, pod.Containers[0].ReadinessProbe} {
			if probe.HTTPGet.Port.StrVal != "healthz" || pod.HostNetwork != (probe.HTTPGet.Host == "127.0.0.1") {
				t.Errorf("%s: probe of port %s at %q", name, probe.HTTPGet.Port.StrVal, probe.HTTPGet.Host)
			}
		}
	}
	manager := find[appsv1.Deployment](t, objects, "Deployment", "ingot-controller-manager").Spec.Template
	for name, port := range map[string]string{"ingot-agent": "agent", "ingot-webhook-service": "webhook-server"} {
		service := find[corev1.Service](t, objects, "Service", name)
		for key, value := range service.Spec.Selector {
			if manager.Labels[key] != value {
				t.Errorf("Service %s selects %s=%s instead of the manager", name, key, value)
			}
		}
		if target := service.Spec.Ports[0].TargetPort.StrVal; target != port {
			t.Errorf("Service %s leads to port %q, want %q", name, target, port)
		}
	}
}

// The manager's Pod meets the Pod Security level "restricted". The boot server's Pod has only the host's
// network and two capabilities.
func TestDeploymentSecurity(t *testing.T) {
	objects := installed(t, nil)
	for namespace, want := range map[string]string{"ingot-system": "restricted", "ingot-boot-system": "privileged"} {
		const level = "pod-security.kubernetes.io/enforce"
		if got := find[corev1.Namespace](t, objects, "Namespace", namespace).Labels[level]; got != want {
			t.Errorf("%s: %s=%s, want %s", namespace, level, got, want)
		}
	}
	for name, tc := range map[string]struct {
		hostNetwork  bool
		root         bool
		capabilities []corev1.Capability
		secrets      map[string][]string // mounted keys by name; nil means all
	}{
		"ingot-controller-manager": {secrets: map[string][]string{"ingot-webhook-service-cert": nil}},
		"ingot-boot": {hostNetwork: true, root: true, capabilities: []corev1.Capability{"NET_BIND_SERVICE", "NET_RAW"},
			secrets: map[string][]string{"ingot-agent-keys": {"token.key", "agent-tls.pins"}}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := find[appsv1.Deployment](t, objects, "Deployment", name).Spec.Template.Spec
			security := pod.Containers[0].SecurityContext
			if pod.HostNetwork != tc.hostNetwork || pod.HostPID || pod.HostIPC || len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
				t.Errorf("host network %t, PID %t, IPC %t, %d containers", pod.HostNetwork, pod.HostPID, pod.HostIPC, len(pod.Containers))
			}
			if *security.AllowPrivilegeEscalation || !*security.ReadOnlyRootFilesystem || security.Privileged != nil ||
				pod.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("security context %+v", security)
			}
			if nonRoot := pod.SecurityContext.RunAsNonRoot; (nonRoot == nil || !*nonRoot) != tc.root {
				t.Errorf("runs as root: %t", !tc.root)
			}
			if diff := cmp.Diff(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: tc.capabilities}, security.Capabilities); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
			got := map[string][]string{}
			for _, volume := range pod.Volumes {
				if volume.HostPath != nil {
					t.Errorf("volume %s is a directory of the host", volume.Name)
				}
				if volume.Secret == nil {
					continue
				}
				got[volume.Secret.SecretName] = nil
				for _, item := range volume.Secret.Items {
					got[volume.Secret.SecretName] = append(got[volume.Secret.SecretName], item.Key)
				}
			}
			if diff := cmp.Diff(tc.secrets, got); diff != "" {
				t.Errorf("Secrets (-want +got):\n%s", diff)
			}
		})
	}
}

// The image cache is smaller than its volume, because the kubelet would otherwise evict the Pod. The
// mount paths match the flags.
func TestBootVolumes(t *testing.T) {
	deployment := find[appsv1.Deployment](t, installed(t, nil), "Deployment", "ingot-boot")
	options, pod := optionsOf(t, deployment), deployment.Spec.Template.Spec
	mounts := map[string]string{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounts[mount.Name] = mount.MountPath
	}
	if diff := cmp.Diff(map[string]string{"agent-keys": options.AgentKeyDir, "images": options.ImageCacheDir}, mounts); diff != "" {
		t.Errorf("mounts (-options +Pod):\n%s", diff)
	}
	for _, volume := range pod.Volumes {
		if volume.EmptyDir != nil && volume.EmptyDir.SizeLimit.Value() <= options.ImageCacheGiB<<30 {
			t.Errorf("volume %s of %s for a cache of %d GiB leaves no room for the index", volume.Name, volume.EmptyDir.SizeLimit, options.ImageCacheGiB)
		}
	}
}

// Boot servers mount the Secret that the manager writes, and use the manager's Service.
func TestBootServersAndManagerAgree(t *testing.T) {
	objects := installed(t, nil)
	manager := optionsOf(t, find[appsv1.Deployment](t, objects, "Deployment", "ingot-controller-manager"))
	deployment := find[appsv1.Deployment](t, objects, "Deployment", "ingot-boot")
	mounted := ""
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			mounted = deployment.Namespace + "/" + volume.Secret.SecretName
		}
	}
	if manager.BootKeySecret != mounted {
		t.Errorf("the manager writes %s, and boot servers mount %s", manager.BootKeySecret, mounted)
	}
	service := find[corev1.Service](t, objects, "Service", "ingot-agent")
	if want := fmt.Sprintf("%s.%s.svc:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port); optionsOf(t, deployment).AgentUpstream != want {
		t.Errorf("boot servers use %s, but the Service is %s", optionsOf(t, deployment).AgentUpstream, want)
	}
}

// The only role of the boot servers reads four kinds.
func TestBootRole(t *testing.T) {
	objects := installed(t, nil)
	bound := []string{}
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "RoleBinding") {
			continue
		}
		binding := find[rbacv1.ClusterRoleBinding](t, objects, object.GetKind(), object.GetName())
		if slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == "ingot-boot" }) {
			bound = append(bound, binding.RoleRef.Kind+" "+binding.RoleRef.Name)
		}
	}
	if diff := cmp.Diff([]string{"ClusterRole ingot-boot-role"}, bound); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	want := []rbacv1.PolicyRule{{
		APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"ingothosts", "ingothardwares", "ingotnetworks", "ingotclusters"}, Verbs: []string{"list", "watch"},
	}}
	if diff := cmp.Diff(want, find[rbacv1.ClusterRole](t, objects, "ClusterRole", "ingot-boot-role").Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// In the boot servers' namespace the manager may only write the Secret with their keys, which gives no
// more rights to users that can create Pods there.
func TestBootKeysRole(t *testing.T) {
	objects := installed(t, nil)
	bound := []string{}
	for _, object := range objects {
		if object.GetKind() != "RoleBinding" || object.GetNamespace() != "ingot-boot-system" {
			continue
		}
		binding := find[rbacv1.RoleBinding](t, objects, "RoleBinding", object.GetName())
		for _, subject := range binding.Subjects {
			bound = append(bound, subject.Kind+" "+subject.Name+": "+binding.RoleRef.Kind+" "+binding.RoleRef.Name)
		}
	}
	if diff := cmp.Diff([]string{"User system:serviceaccount:ingot-system:ingot-controller-manager: Role ingot-boot-keys-role"}, bound); diff != "" {
		t.Errorf("subjects with rights (-want +got):\n%s", diff)
	}
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"ingot-agent-keys"}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create"}},
	}
	if diff := cmp.Diff(want, find[rbacv1.Role](t, objects, "Role", "ingot-boot-keys-role").Rules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// The webhook port is open to INGOT_WEBHOOK_SOURCES, diagnostics to labeled namespaces, and the health
// port to no Pod. Every port of a rule exists in the manager.
func TestManagerNetworkPolicy(t *testing.T) {
	objects := installed(t, map[string]string{"INGOT_WEBHOOK_SOURCES": "192.0.2.0/28"})
	manager := find[appsv1.Deployment](t, objects, "Deployment", "ingot-controller-manager").Spec.Template
	policy := find[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy", "ingot-controller-manager").Spec
	for key, value := range policy.PodSelector.MatchLabels {
		if manager.Labels[key] != value {
			t.Errorf("the policy selects %s=%s instead of the manager", key, value)
		}
	}
	got := map[string][]string{}
	for _, rule := range policy.Ingress {
		var from []string
		for _, peer := range rule.From {
			if peer.IPBlock != nil {
				from = append(from, peer.IPBlock.CIDR)
			}
			if peer.NamespaceSelector != nil {
				from = append(from, metav1.FormatLabelSelector(peer.NamespaceSelector))
			}
		}
		for _, port := range rule.Ports {
			if !slices.ContainsFunc(manager.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == port.Port.StrVal }) {
				t.Errorf("the manager has no port %s", port.Port)
			}
			got[port.Port.StrVal] = from
		}
	}
	want := map[string][]string{"webhook-server": {"192.0.2.0/28", "::/0"}, "agent": nil, "diagnostics": {"metrics=enabled"}}
	if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(policy.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
		t.Errorf("allowed sources by port (-want +got):\n%s", diff)
	}
}

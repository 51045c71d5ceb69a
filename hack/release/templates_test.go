// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// flavors are the flavors of "clusterctl generate cluster", the default first.
var flavors = []string{"", "external-endpoint", "clusterclass", "clusterclass-runtime"}

// required are the required variables.
var required = map[string]string{
	"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.10",
	"INGOT_IMAGE_URL":             "https://images.example/os.raw.zst",
	"INGOT_IMAGE_CHECKSUM":        "sha256:" + strings.Repeat("ab", 32),
}

func with(more map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{required, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// generate runs "clusterctl generate cluster c1" without a management cluster.
func generate(t *testing.T, r *Release, flavor string, controlPlanes int64, variables map[string]string) client.Template {
	t.Helper()
	workers := int64(2)
	template, err := clusterctl(t, r, variables).GetClusterTemplate(t.Context(), client.GetClusterTemplateOptions{
		ProviderRepositorySource: &client.ProviderRepositorySourceOptions{InfrastructureProvider: "ingot:" + testVersion, Flavor: flavor},
		TargetNamespace:          "dc1", ClusterName: "c1", KubernetesVersion: "v1.36.3",
		ControlPlaneMachineCount: &controlPlanes, WorkerMachineCount: &workers,
	})
	if err != nil {
		t.Fatal(err)
	}
	return template
}

// scheme contains every kind of the templates.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme, infrav1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// typed decodes an object strictly into its Go type.
func typed(t *testing.T, o unstructured.Unstructured) runtime.Object {
	t.Helper()
	object, err := scheme(t).New(o.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	data, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(data, object); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return object
}

// With only the required variables, clusterctl generates known kinds and fields in one namespace
// (K33, K35).
func TestTemplatesGenerateClusters(t *testing.T) {
	r := write(t)
	want := map[string][]string{
		"": {"Cluster c1", "IngotCluster c1", "IngotMachineTemplate c1-control-plane", "IngotMachineTemplate c1-md-0",
			"KubeadmConfigTemplate c1-md-0", "KubeadmControlPlane c1-control-plane", "MachineDeployment c1-md-0",
			"MachineHealthCheck c1-control-plane", "MachineHealthCheck c1-md-0"},
		"clusterclass": {"Cluster c1", "ClusterClass ingot", "IngotClusterTemplate ingot", "IngotMachineTemplate ingot-control-plane",
			"IngotMachineTemplate ingot-default-worker", "KubeadmConfigTemplate ingot-default-worker", "KubeadmControlPlaneTemplate ingot-control-plane"},
	}
	want["external-endpoint"] = want[""]
	for _, object := range want["clusterclass"] {
		kind, name, _ := strings.Cut(object, " ")
		want["clusterclass-runtime"] = append(want["clusterclass-runtime"], kind+" "+strings.Replace(name, "ingot", "ingot-runtime", 1))
	}
	for _, flavor := range flavors {
		t.Run("flavor "+flavor, func(t *testing.T) {
			var got []string
			for _, o := range generate(t, r, flavor, 3, required).Objs() {
				got = append(got, o.GetKind()+" "+o.GetName())
				typed(t, o)
				if o.GetNamespace() != "dc1" {
					t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), o.GetNamespace())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(want[flavor], got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

// find returns the object of a kind whose name has a suffix.
func find[T runtime.Object](t *testing.T, template client.Template, name string) T {
	t.Helper()
	for _, o := range template.Objs() {
		if o.GetName() != name {
			continue
		}
		if object, ok := typed(t, o).(T); ok {
			return object
		}
	}
	var none T
	t.Fatalf("no %T %s", none, name)
	return none
}

// A rollout of three or more machines needs no spare server. Cluster API requires one for a single
// machine.
func TestSurge(t *testing.T) {
	r := write(t)
	for _, flavor := range flavors[:2] {
		for controlPlanes, want := range map[int64]int{1: 1, 3: 0, 5: 0, 7: 0, 9: 0} {
			template := generate(t, r, flavor, controlPlanes, required)
			kcp := find[*controlplanev1.KubeadmControlPlane](t, template, "c1-control-plane")
			if *kcp.Spec.Replicas != int32(controlPlanes) || kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue() != want {
				t.Errorf("flavor %q: %d control planes, maxSurge %v, want %d", flavor, controlPlanes, kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge, want)
			}
			md := find[*clusterv1.MachineDeployment](t, template, "c1-md-0").Spec
			update := md.Rollout.Strategy.RollingUpdate
			if update.MaxSurge.IntValue() != 0 || update.MaxUnavailable.IntValue() != 1 || md.Remediation.MaxInFlight.IntValue() != 1 {
				t.Errorf("flavor %q: workers surge %v, unavailable %v, remediated %v", flavor, update.MaxSurge, update.MaxUnavailable, md.Remediation.MaxInFlight)
			}
		}
	}
}

// A Machine exists until its Node is deleted.
func TestNodesGoWithTheirMachines(t *testing.T) {
	r := write(t)
	for flavor, class := range map[string]string{"": "", "external-endpoint": "", "clusterclass": "ingot", "clusterclass-runtime": "ingot-runtime"} {
		template, got := generate(t, r, flavor, 3, required), map[string]*int32{}
		if class == "" {
			got["control plane"] = find[*controlplanev1.KubeadmControlPlane](t, template, "c1-control-plane").Spec.MachineTemplate.Spec.Deletion.NodeDeletionTimeoutSeconds
			got["workers"] = find[*clusterv1.MachineDeployment](t, template, "c1-md-0").Spec.Template.Spec.Deletion.NodeDeletionTimeoutSeconds
		} else {
			spec := find[*clusterv1.ClusterClass](t, template, class).Spec
			got["control plane"], got["workers"] = spec.ControlPlane.Deletion.NodeDeletionTimeoutSeconds, spec.Workers.MachineDeployments[0].Deletion.NodeDeletionTimeoutSeconds
		}
		if diff := cmp.Diff(map[string]*int32{"control plane": new(int32(0)), "workers": new(int32(0))}, got); diff != "" {
			t.Errorf("flavor %q: nodeDeletionTimeoutSeconds (-want +got):\n%s", flavor, diff)
		}
	}
}

// Every Node gets the provider ID of its server.
func TestEveryNodeHasItsProviderID(t *testing.T) {
	r := write(t)
	identity := map[string]string{"name": "{{ ds.meta_data.local_hostname }}", "provider-id": "{{ ds.meta_data.provider_id }}"}
	for _, flavor := range flavors {
		registrations := 0
		for _, o := range generate(t, r, flavor, 3, required).Objs() {
			walk(o.Object, func(key string, value any) {
				registration, ok := value.(map[string]any)
				if key != "nodeRegistration" || !ok {
					return
				}
				registrations++
				got := map[string]string{"name": registration["name"].(string)}
				for _, arg := range registration["kubeletExtraArgs"].([]any) {
					arg := arg.(map[string]any)
					got[arg["name"].(string)] = arg["value"].(string)
				}
				if diff := cmp.Diff(identity, got); diff != "" {
					t.Errorf("flavor %q, %s %s (-want +got):\n%s", flavor, o.GetKind(), o.GetName(), diff)
				}
			})
		}
		if registrations != 3 {
			t.Errorf("flavor %q: %d nodeRegistrations, want those of init, join and workers", flavor, registrations)
		}
	}
}

// timeouts are kubeadm's timeouts on control planes.
var timeouts = bootstrapv1.Timeouts{
	ControlPlaneComponentHealthCheckSeconds: new(int32(600)),
	KubernetesAPICallSeconds:                new(int32(300)),
	EtcdAPICallSeconds:                      new(int32(900)),
	DiscoverySeconds:                        new(int32(600)),
	TLSBootstrapSeconds:                     new(int32(600)),
}

// initConfiguration and joinConfiguration of control planes are equal, because Cluster API
// compares them for in-place changes, and would otherwise replace the first machine.
func TestFirstControlPlaneIsAsTheOthers(t *testing.T) {
	r := write(t)
	for _, flavor := range flavors {
		specs := 0
		for _, o := range generate(t, r, flavor, 3, required).Objs() {
			spec, controlPlane := kubeadmOf(t, o)
			if !controlPlane {
				continue
			}
			specs++
			first, other := spec.InitConfiguration, spec.JoinConfiguration
			if diff := cmp.Diff(timeouts, first.Timeouts); diff != "" {
				t.Errorf("flavor %q, %s: timeouts (-want +got):\n%s", flavor, o.GetName(), diff)
			}
			want := bootstrapv1.JoinConfiguration{Timeouts: first.Timeouts, Patches: first.Patches, SkipPhases: first.SkipPhases, NodeRegistration: first.NodeRegistration}
			got := bootstrapv1.JoinConfiguration{Timeouts: other.Timeouts, Patches: other.Patches, SkipPhases: other.SkipPhases, NodeRegistration: other.NodeRegistration}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("flavor %q, %s: join (-init +join):\n%s", flavor, o.GetName(), diff)
			}
		}
		if specs != 1 {
			t.Errorf("flavor %q: %d control planes", flavor, specs)
		}
	}
}

// makePatches creates the directory for kubeadm's patches.
const makePatches = "mkdir -p /etc/kubernetes/patches"

// kubeadm finds the patches of an image on every server.
func TestImagesMayBringPatches(t *testing.T) {
	r := write(t)
	for _, flavor := range flavors {
		specs := 0
		for _, o := range generate(t, r, flavor, 3, required).Objs() {
			spec, controlPlane := kubeadmOf(t, o)
			if spec == nil {
				continue
			}
			specs++
			looks := []bootstrapv1.Patches{spec.JoinConfiguration.Patches}
			if controlPlane {
				looks = append(looks, spec.InitConfiguration.Patches)
			}
			for _, look := range looks {
				if look.Directory != "/etc/kubernetes/patches" || !slices.Contains(spec.PreKubeadmCommands, makePatches) {
					t.Errorf("flavor %q, %s: kubeadm looks in %q after %q", flavor, o.GetName(), look.Directory, spec.PreKubeadmCommands)
				}
			}
		}
		if specs != 2 {
			t.Errorf("flavor %q: %d configurations, want those of control planes and workers", flavor, specs)
		}
	}
}

// kubeadmOf is an object's configuration of kubeadm, and whether it is that of control
// planes; nil: it has none.
func kubeadmOf(t *testing.T, o unstructured.Unstructured) (spec *bootstrapv1.KubeadmConfigSpec, controlPlane bool) {
	t.Helper()
	switch o := typed(t, o).(type) {
	case *controlplanev1.KubeadmControlPlane:
		return &o.Spec.KubeadmConfigSpec, true
	case *controlplanev1.KubeadmControlPlaneTemplate:
		return &o.Spec.Template.Spec.KubeadmConfigSpec, true
	case *bootstrapv1.KubeadmConfigTemplate:
		return &o.Spec.Template.Spec, false
	}
	return nil, false
}

func walk(value any, visit func(key string, value any)) {
	switch value := value.(type) {
	case map[string]any:
		for k, v := range value {
			visit(k, v)
			walk(v, visit)
		}
	case []any:
		for _, v := range value {
			walk(v, visit)
		}
	}
}

// The two templates differ only in kube-vip.
func TestExternalEndpointIsTheDefaultWithoutKubeVIP(t *testing.T) {
	r := write(t)
	strip := func(template client.Template) []unstructured.Unstructured {
		var objects []unstructured.Unstructured
		for _, o := range template.Objs() {
			o := *o.DeepCopy()
			for _, path := range [][]string{{"files"}, {"preKubeadmCommands"}, {"initConfiguration", "localAPIEndpoint"}, {"joinConfiguration", "controlPlane"}} {
				unstructured.RemoveNestedField(o.Object, append([]string{"spec", "kubeadmConfigSpec"}, path...)...)
			}
			objects = append(objects, o)
		}
		return objects
	}
	plain, external := generate(t, r, "", 3, required), generate(t, r, "external-endpoint", 3, required)
	if diff := cmp.Diff(strip(plain), strip(external)); diff != "" {
		t.Errorf("(-default +external-endpoint):\n%s", diff)
	}
	kubeVIP := find[*controlplanev1.KubeadmControlPlane](t, external, "c1-control-plane").Spec.KubeadmConfigSpec
	if len(kubeVIP.Files) != 0 || !slices.Equal(kubeVIP.PreKubeadmCommands, []string{makePatches}) {
		t.Error("external-endpoint has something of kube-vip")
	}
}

// The kubelet accepts the static Pod of the default template, which equals that of the class.
func TestKubeVIP(t *testing.T) {
	r := write(t)
	template := generate(t, r, "", 3, with(map[string]string{"CONTROL_PLANE_ENDPOINT_PORT": "7443"}))
	kcp := find[*controlplanev1.KubeadmControlPlane](t, template, "c1-control-plane")
	manifest := kcp.Spec.KubeadmConfigSpec.Files[0].Content
	checkKubeVIP(t, manifest)
	class := read(t, filepath.Join(r.Dir, "clusterclass-ingot.yaml"))
	_, class, found := strings.Cut(class, "\n"+strings.Repeat(" ", 16)+"apiVersion: v1\n")
	if !found {
		t.Fatal("the class has no static Pod")
	}
	class, _, _ = strings.Cut(class, "\n---\n")
	fill := strings.NewReplacer("{{ .kubeVIP.image }}", "ghcr.io/kube-vip/kube-vip:v1.2.2", "{{ .kubeVIP.interface }}", "",
		"{{ .controlPlaneEndpoint.host }}", required["CONTROL_PLANE_ENDPOINT_HOST"], "{{ .controlPlaneEndpoint.port }}", "7443",
		"{{ .leases.durationSeconds }}", "15", "{{ .leases.renewSeconds }}", "10", "{{ .leases.retrySeconds }}", "2",
		"\n"+strings.Repeat(" ", 16), "\n")
	var want, got corev1.Pod
	if err := yaml.Unmarshal([]byte("apiVersion: v1\n"+fill.Replace("\n"+class)), &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(manifest), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("static Pod (-class +default):\n%s", diff)
	}
}

// The book documents exactly the variables of the templates, with defaults and templates (K31,
// K34).
func TestVariablesAreDocumented(t *testing.T) {
	r := write(t)
	got := map[string][]string{}
	for _, flavor := range flavors {
		for name, fallback := range generate(t, r, flavor, 3, required).VariableMap() {
			word := "required"
			if fallback != nil {
				word = *fallback
			}
			if strings.Trim(word, ` '"`) == "" {
				word = "none"
			}
			if row, ok := got[name]; ok && row[0] != word {
				t.Errorf("%s has the default %s in one template and %s in another", name, row[0], word)
			} else if !ok {
				got[name] = []string{word}
			}
			got[name] = append(got[name], map[string]string{"": "default"}[flavor]+flavor)
		}
	}
	for name, row := range got {
		if len(row) == 1+len(flavors) {
			row = []string{row[0], "all"}
		}
		got[name] = []string{row[0], strings.Join(row[1:], ", ")}
	}
	documented := map[string][]string{}
	for name, row := range tableOf(t, "reference/variables.md", "template variable") {
		documented[name] = row[:2]
	}
	if diff := cmp.Diff(got, documented); diff != "" {
		t.Errorf("variables (-templates +docs/book/reference/variables.md):\n%s", diff)
	}
}

// Optional variables set the intended fields.
func TestOptionalVariables(t *testing.T) {
	r := write(t)
	template := generate(t, r, "", 3, with(map[string]string{
		"INGOT_CONTROL_PLANE_HOST_LABELS": `class: small, gen: "4"`, "INGOT_WORKER_HOST_LABELS": "class: large",
		"INGOT_KUBE_VIP_INTERFACE": "bond0", "INGOT_KUBE_VIP_IMAGE": "registry.example/kube-vip:v1.0.0",
		"CONTROL_PLANE_ENDPOINT_PORT": "7443", "POD_CIDR": `["10.1.0.0/16", "fd00:1::/56"]`,
		"INGOT_NODE_STARTUP_TIMEOUT_SECONDS": "3600", "INGOT_FAILURE_DOMAIN_LABEL": "example.com/row",
		"INGOT_ETCD_HEARTBEAT_MILLISECONDS": "500", "INGOT_ETCD_ELECTION_MILLISECONDS": "5000", "INGOT_KEY_ALGORITHM": "ECDSA-P256",
		"INGOT_LEASE_SECONDS": "60", "INGOT_LEASE_RENEW_SECONDS": "45", "INGOT_LEASE_RETRY_SECONDS": "9",
	}))
	cluster := find[*infrav1.IngotCluster](t, template, "c1").Spec
	small := map[string]string{"class": "small", "gen": "4"}
	kubeadm := find[*controlplanev1.KubeadmControlPlane](t, template, "c1-control-plane").Spec.KubeadmConfigSpec
	configuration := kubeadm.ClusterConfiguration
	got := map[string]any{
		"etcd":                   configuration.Etcd.Local.ExtraArgs,
		"controller manager":     configuration.ControllerManager.ExtraArgs,
		"scheduler":              configuration.Scheduler.ExtraArgs,
		"kube-vip":               leasesOfKubeVIP(t, kubeadm.Files[0].Content),
		"keys":                   configuration.EncryptionAlgorithm,
		"endpoint":               cluster.ControlPlaneEndpoint,
		"failure domains":        cluster.FailureDomainLabel,
		"cluster's selector":     cluster.ControlPlaneSelector.MatchLabels,
		"control planes":         find[*infrav1.IngotMachineTemplate](t, template, "c1-control-plane").Spec.Template.Spec.HostSelector.MatchLabels,
		"workers":                find[*infrav1.IngotMachineTemplate](t, template, "c1-md-0").Spec.Template.Spec.HostSelector.MatchLabels,
		"pods":                   find[*clusterv1.Cluster](t, template, "c1").Spec.ClusterNetwork.Pods.CIDRBlocks,
		"control planes' time":   *find[*clusterv1.MachineHealthCheck](t, template, "c1-control-plane").Spec.Checks.NodeStartupTimeoutSeconds,
		"workers' time":          *find[*clusterv1.MachineHealthCheck](t, template, "c1-md-0").Spec.Checks.NodeStartupTimeoutSeconds,
		"port of the API server": kubeadm.InitConfiguration.LocalAPIEndpoint.BindPort,
	}
	want := map[string]any{
		"etcd":               []bootstrapv1.Arg{{Name: "heartbeat-interval", Value: new("500")}, {Name: "election-timeout", Value: new("5000")}},
		"controller manager": leaseArguments("60", "45", "9"), "scheduler": leaseArguments("60", "45", "9"), "kube-vip": "60 45 9",
		"keys":            bootstrapv1.EncryptionAlgorithmECDSAP256,
		"endpoint":        infrav1.APIEndpoint{Host: "192.0.2.10", Port: 7443},
		"failure domains": "example.com/row", "cluster's selector": small, "control planes": small,
		"workers": map[string]string{"class": "large"}, "pods": []string{"10.1.0.0/16", "fd00:1::/56"},
		"control planes' time": int32(3600), "workers' time": int32(3600), "port of the API server": int32(7443),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// leaseArguments are the lease arguments of controller manager and scheduler, in seconds.
func leaseArguments(duration, renew, retry string) []bootstrapv1.Arg {
	return []bootstrapv1.Arg{
		{Name: "leader-elect-lease-duration", Value: new(duration + "s")}, {Name: "leader-elect-renew-deadline", Value: new(renew + "s")},
		{Name: "leader-elect-retry-period", Value: new(retry + "s")},
	}
}

// A ClusterClass file contains no variables and no namespace, and all referenced objects (K36,
// K40–K43).
func TestClusterClassStandsAlone(t *testing.T) {
	text := read(t, filepath.Join(root, "templates", "clusterclass-ingot.yaml"))
	if found := regexp.MustCompile(`\$\{[^}]*\}`).FindString(text); found != "" {
		t.Errorf("it has the variable %s", found)
	}
	have := map[string]bool{}
	var refers []string
	for _, o := range parse(t, text) {
		if o.GetNamespace() != "" {
			t.Errorf("%s %s names a namespace", o.GetKind(), o.GetName())
		}
		have[o.GetAPIVersion()+" "+o.GetKind()+" "+o.GetName()] = true
		walk(o.Object, func(key string, value any) {
			if ref, ok := value.(map[string]any); ok && key == "templateRef" {
				refers = append(refers, ref["apiVersion"].(string)+" "+ref["kind"].(string)+" "+ref["name"].(string))
				if _, ok := ref["namespace"]; ok {
					t.Errorf("the reference to %v names a namespace", ref["name"])
				}
			}
		})
	}
	if len(refers) != 5 {
		t.Errorf("%d references, want 5", len(refers))
	}
	for _, ref := range refers {
		if !have[ref] {
			t.Errorf("it refers to %s, which is not in the file", ref)
		}
	}
}

// The book documents the class variables.
func TestClassVariablesAreDocumented(t *testing.T) {
	r := write(t)
	class := find[*clusterv1.ClusterClass](t, generate(t, r, "clusterclass", 3, required), "ingot")
	got, documented := map[string]string{}, map[string]string{}
	for _, v := range class.Spec.Variables {
		got[v.Name] = map[bool]string{true: "yes", false: "no"}[*v.Required]
	}
	for name, row := range tableOf(t, "reference/variables.md", "class variable") {
		documented[name] = row[0]
	}
	if diff := cmp.Diff(got, documented); diff != "" {
		t.Errorf("class variables (-class +docs/book/reference/variables.md):\n%s", diff)
	}
}

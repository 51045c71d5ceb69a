// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// Cluster API's webhooks and topology controller accept the templates. Ingot's manager does not
// run.
func TestClusterAPITakesTheTemplates(t *testing.T) {
	needs.ClusterAPI(t)
	r := write(t)
	c := management(t)
	// The last flavor's class needs the runtime extension, which test/hooks runs.
	for _, flavor := range flavors[:3] {
		for _, controlPlanes := range []int64{1, 3} {
			namespace := fmt.Sprintf("dc-%d%s", controlPlanes, flavor)
			t.Run(namespace, func(t *testing.T) {
				apply(t, c, r, flavor, controlPlanes, namespace)
				if flavor == "clusterclass" {
					p := topology{c, namespace, int(controlPlanes)}
					p.check(t)
					p.checkRefusals(t)
					p.checkWrongNetwork(t)
				}
			})
		}
	}
}

// management is a control plane with Cluster API and Ingot's definitions.
func management(t *testing.T) ctrlclient.Client {
	t.Helper()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	if err := plane.InstallClusterAPI(t.Context()); err != nil {
		t.Fatal(err)
	}
	definitions, err := filepath.Abs(filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plane.Kubectl(t.Context(), "apply", "--server-side", "--filename", definitions); err != nil {
		t.Fatal(err)
	}
	if _, err := plane.Kubectl(t.Context(), "wait", "--for=condition=Established", "--timeout=60s", "--filename", definitions); err != nil {
		t.Fatal(err)
	}
	s := scheme(t)
	if err := corev1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := ctrlclient.New(plane.RESTConfig(), ctrlclient.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	return ctrlclient.WithFieldValidation(c, metav1.FieldValidationStrict)
}

// slowEtcd is how many control planes the cluster has whose etcd and leases have times of
// their own, whose keys are not RSA, whose Nodes are given labels of their hosts, and which
// has ownVariables.
const slowEtcd = 3

// ownVariables are the class variables without a template variable.
func ownVariables(t *testing.T) (values map[string]any) {
	t.Helper()
	text := `
users: [{name: ops, sudo: "ALL=(ALL) NOPASSWD:ALL", sshAuthorizedKeys: [ssh-ed25519 AAAA ops@example.com]}]
controlPlaneNetworkData: {ethernets: [{name: lan0, nic: {bootNIC: Only}, addresses: [{source: Recorded}]}]}
workerNetworkData: {ethernets: [{name: lan0, nic: {position: 1}}, {name: lan1, nic: {position: 2}}], bonds: [{name: bond0, mode: active-backup, interfaces: [lan0, lan1], addresses: [{source: Recorded}]}]}
controlPlaneRootDeviceHints: {minSize: 400G}
workerRootDeviceHints: {minSize: 100G, rotational: false}
controlPlaneSoftwareRAID: {level: RAID1}
workerSoftwareRAID: {level: RAID1}
cleaning: Full
`
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// apply creates all objects of a template in a new namespace.
func apply(t *testing.T, c ctrlclient.Client, r *Release, flavor string, controlPlanes int64, namespace string) {
	t.Helper()
	if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	variables := with(map[string]string{"INGOT_CONTROL_PLANE_HOST_LABELS": "class: small", "CONTROL_PLANE_ENDPOINT_PORT": "7443"})
	if flavor == "clusterclass" && controlPlanes == slowEtcd {
		maps.Copy(variables, map[string]string{
			"INGOT_ETCD_HEARTBEAT_MILLISECONDS": "500", "INGOT_ETCD_ELECTION_MILLISECONDS": "5000",
			"INGOT_LEASE_SECONDS": "60", "INGOT_LEASE_RENEW_SECONDS": "45", "INGOT_LEASE_RETRY_SECONDS": "9",
			"INGOT_KEY_ALGORITHM": string(bootstrapv1.EncryptionAlgorithmECDSAP256),
			"INGOT_NODE_LABELS":   "[dc.example/gpu, storage.example/*]",
		})
	}
	for _, o := range generate(t, r, flavor, controlPlanes, variables).Objs() {
		o.SetNamespace(namespace)
		if flavor == "clusterclass" && o.GetKind() == "Cluster" && controlPlanes != slowEtcd {
			dropVariable(t, &o, "etcd") // as in a Cluster of somebody's own
		}
		if flavor == "clusterclass" && o.GetKind() == "Cluster" && controlPlanes == slowEtcd {
			for name, value := range ownVariables(t) {
				setVariable(t, &o, name, value)
			}
		}
		create := func(ctx context.Context) error { return c.Create(ctx, o.DeepCopy()) }
		// The Cluster waits for its class to be reconciled, as a second kubectl apply would.
		eventually.Wait{Interval: 250 * time.Millisecond}.Until(t, o.GetKind()+" "+o.GetName(), eventually.Works(create))
	}
}

// topology contains the objects that the class creates for a Cluster.
type topology struct {
	client        ctrlclient.Client
	namespace     string
	controlPlanes int
}

func (p topology) list(ctx context.Context, list ctrlclient.ObjectList) error {
	return p.client.List(ctx, list, ctrlclient.InNamespace(p.namespace), ctrlclient.MatchingLabels{clusterv1.ClusterNameLabel: "c1"})
}

// check waits for the objects of the class and checks the results of its patches.
func (p topology) check(t *testing.T) {
	t.Helper()
	var clusters infrav1.IngotClusterList
	var kcps controlplanev1.KubeadmControlPlaneList
	var deployments clusterv1.MachineDeploymentList
	var machines infrav1.IngotMachineTemplateList
	var checks clusterv1.MachineHealthCheckList
	explain := func() string {
		var cluster clusterv1.Cluster
		_ = p.client.Get(t.Context(), ctrlclient.ObjectKey{Namespace: p.namespace, Name: "c1"}, &cluster)
		return fmt.Sprintf("conditions of the Cluster: %v", cluster.Status.Conditions)
	}
	eventually.Wait{Interval: 250 * time.Millisecond, Explain: explain}.Until(t, "what the class makes of the Cluster", func(ctx context.Context) (string, error) {
		for _, list := range []ctrlclient.ObjectList{&clusters, &kcps, &deployments, &machines, &checks} {
			if err := p.list(ctx, list); err != nil {
				return "", err
			}
		}
		got := []int{len(clusters.Items), len(kcps.Items), len(deployments.Items), len(machines.Items), len(checks.Items)}
		if !slices.Equal(got, []int{1, 1, 1, 2, 2}) {
			return fmt.Sprintf("IngotClusters, control planes, deployments, machine templates, health checks: %v", got), nil
		}
		return "", nil
	})
	p.checkCluster(t, clusters.Items[0])
	p.checkControlPlane(t, kcps.Items[0])
	p.checkMachines(t, machines.Items)
	p.checkOwn(t, kcps.Items[0], machines.Items)
	for _, check := range checks.Items {
		if got := check.Spec.Checks.NodeStartupTimeoutSeconds; got == nil || *got != 1800 {
			t.Errorf("MachineHealthCheck %s: startup timeout %v", check.Name, got)
		}
	}
	if most := deployments.Items[0].Spec.Remediation.MaxInFlight; most == nil || most.IntValue() != 1 {
		t.Errorf("workers replaced at once: %v", most)
	}
	if surge := deployments.Items[0].Spec.Rollout.Strategy.RollingUpdate.MaxSurge; surge == nil || surge.IntValue() != 0 {
		t.Errorf("workers surge by %v", surge)
	}
}

func (p topology) checkCluster(t *testing.T, cluster infrav1.IngotCluster) {
	t.Helper()
	want := infrav1.IngotClusterSpec{
		ControlPlaneEndpoint: infrav1.APIEndpoint{Host: required["CONTROL_PLANE_ENDPOINT_HOST"], Port: 7443},
		ControlPlaneSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"class": "small"}},
		FailureDomainLabel:   infrav1.RackLabel,
	}
	if p.controlPlanes == slowEtcd {
		want.NodeLabels = []string{"dc.example/gpu", "storage.example/*"}
	}
	if diff := cmp.Diff(want, cluster.Spec); diff != "" {
		t.Errorf("IngotCluster (-want +got):\n%s", diff)
	}
}

func (p topology) checkControlPlane(t *testing.T, kcp controlplanev1.KubeadmControlPlane) {
	t.Helper()
	want := 0
	if p.controlPlanes == 1 {
		want = 1
	}
	if surge := kcp.Spec.Rollout.Strategy.RollingUpdate.MaxSurge; surge == nil || surge.IntValue() != want {
		t.Errorf("a control plane of %d surges by %v, want %d", p.controlPlanes, surge, want)
	}
	config := kcp.Spec.KubeadmConfigSpec
	if config.InitConfiguration.LocalAPIEndpoint.BindPort != 7443 || config.JoinConfiguration.ControlPlane.LocalAPIEndpoint.BindPort != 7443 {
		t.Errorf("the API servers listen on %v and %v", config.InitConfiguration.LocalAPIEndpoint, config.JoinConfiguration.ControlPlane)
	}
	if len(config.Files) != 1 || len(config.PreKubeadmCommands) != 2 || config.PreKubeadmCommands[0] != makePatches {
		t.Fatalf("%d files, commands %q", len(config.Files), config.PreKubeadmCommands)
	}
	checkKubeVIP(t, config.Files[0].Content)
	var times []bootstrapv1.Arg
	keys, duration, renew, retry := bootstrapv1.EncryptionAlgorithmRSA2048, "15", "10", "2"
	if p.controlPlanes == slowEtcd {
		keys, duration, renew, retry = bootstrapv1.EncryptionAlgorithmECDSAP256, "60", "45", "9"
		times = []bootstrapv1.Arg{{Name: "heartbeat-interval", Value: new("500")}, {Name: "election-timeout", Value: new("5000")}}
	}
	if diff := cmp.Diff(times, config.ClusterConfiguration.Etcd.Local.ExtraArgs); diff != "" {
		t.Errorf("times of etcd (-want +got):\n%s", diff)
	}
	for _, got := range [][]bootstrapv1.Arg{config.ClusterConfiguration.ControllerManager.ExtraArgs, config.ClusterConfiguration.Scheduler.ExtraArgs} {
		if diff := cmp.Diff(leaseArguments(duration, renew, retry), got); diff != "" {
			t.Errorf("leases of a control plane of %d (-want +got):\n%s", p.controlPlanes, diff)
		}
	}
	if got, want := leasesOfKubeVIP(t, config.Files[0].Content), duration+" "+renew+" "+retry; got != want {
		t.Errorf("leases of kube-vip of a control plane of %d: %s, want %s", p.controlPlanes, got, want)
	}
	if got := config.ClusterConfiguration.EncryptionAlgorithm; got != keys {
		t.Errorf("a control plane of %d has keys of %s, want %s", p.controlPlanes, got, keys)
	}
}

// checkRefusals: times with which parts of a control plane would not start are refused by
// the class, with the values and what to do; and what is no list of labels.
func (p topology) checkRefusals(t *testing.T) {
	t.Helper()
	for name, tc := range map[string]struct {
		variable string
		value    any
		want     string
	}{
		"as long as the lease":        {"leases", map[string]any{"durationSeconds": int64(20), "renewSeconds": int64(20)}, "renewSeconds is 20, which must be less than durationSeconds, 20"},
		"tries too seldom":            {"leases", map[string]any{"retrySeconds": int64(9)}, "retrySeconds is 9, which must be less than five sixths of renewSeconds, 10"},
		"a short lease by itself":     {"leases", map[string]any{"durationSeconds": int64(8)}, "renewSeconds is 10, which must be less than durationSeconds, 8"},
		"elections before heartbeats": {"etcd", map[string]any{"heartbeatMilliseconds": int64(500), "electionMilliseconds": int64(1000)}, "raise it to 5000 or more"},
		"no key of a label":           {"nodeLabels", []any{"dc.example/gpu=a100"}, "should match"},
		"a label twice":               {"nodeLabels", []any{"gpu", "gpu"}, "duplicate"},
		"a user without a name":       {"users", []any{map[string]any{"sudo": "ALL"}}, "[0].name"},
		"a password":                  {"users", []any{map[string]any{"name": "ops", "passwd": "x"}}, "passwd"},
		"a wrong word in a network":   {"workerNetworkData", map[string]any{"ethernets": []any{map[string]any{"nik": "x"}}}, "ethernets[0].nik"},
		"a wrong word of a disk":      {"workerRootDeviceHints", map[string]any{"minSizeGB": int64(4)}, "minSizeGB"},
		"a colon that ends a word":    {"users", []any{map[string]any{"name": "ops", "sudo": "ALL=(ALL) NOPASSWD: ALL"}}, "[0].sudo"},
		"a key with a line":           {"users", []any{map[string]any{"name": "ops", "sshAuthorizedKeys": []any{"ssh-ed25519 AAAA\nruncmd: []"}}}, "[0].sshAuthorizedKeys[0]"},
		"no way of cleaning":          {"cleaning", "Twice", "Metadata"},
	} {
		cluster := &unstructured.Unstructured{}
		cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
		if err := p.client.Get(t.Context(), ctrlclient.ObjectKey{Namespace: p.namespace, Name: "c1"}, cluster); err != nil {
			t.Fatal(err)
		}
		setVariable(t, cluster, tc.variable, tc.value)
		if err := p.client.Update(t.Context(), cluster, ctrlclient.DryRunAll); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// checkWrongNetwork: what breaks a rule that is not the class's is told by the Cluster, in the
// words of the IngotMachineTemplate, and no worker is rolled out for it.
func (p topology) checkWrongNetwork(t *testing.T) {
	t.Helper()
	template := func(ctx context.Context) string {
		var deployments clusterv1.MachineDeploymentList
		if err := p.list(ctx, &deployments); err != nil || len(deployments.Items) != 1 {
			t.Fatalf("%d deployments, error %v", len(deployments.Items), err)
		}
		return deployments.Items[0].Spec.Template.Spec.InfrastructureRef.Name
	}
	before := template(t.Context())
	key := ctrlclient.ObjectKey{Namespace: p.namespace, Name: "c1"}
	eventually.Wait{Interval: 250 * time.Millisecond}.Until(t, "a change of the Cluster", eventually.Works(func(ctx context.Context) error {
		cluster := &unstructured.Unstructured{}
		cluster.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Cluster"))
		if err := p.client.Get(ctx, key, cluster); err != nil {
			return err
		}
		setVariable(t, cluster, "workerNetworkData", map[string]any{
			"ethernets": []any{map[string]any{"name": "lan0", "nic": map[string]any{"bootNIC": "Only"}}},
			"bonds":     []any{map[string]any{"name": "bond0", "mode": "active-backup", "lacpRate": "fast", "interfaces": []any{"lan0"}}},
		})
		return p.client.Update(ctx, cluster)
	}))
	eventually.Wait{Interval: 250 * time.Millisecond}.Until(t, "the Cluster's word about it", func(ctx context.Context) (string, error) {
		cluster := &clusterv1.Cluster{}
		if err := p.client.Get(ctx, key, cluster); err != nil {
			return "", err
		}
		const want = "active-backup does not use LACP; remove lacpRate"
		told := conditions.Get(cluster, clusterv1.ClusterTopologyReconciledCondition)
		if told != nil && told.Status == metav1.ConditionFalse && strings.Contains(told.Message, want) && strings.Contains(told.Message, "spec.template.spec.networkData.bonds[0].mode") {
			return "", nil
		}
		return fmt.Sprintf("%+v", told), nil
	})
	if after := template(t.Context()); after != before {
		t.Errorf("the workers' template was %s and is %s", before, after)
	}
}

// setVariable sets a variable of a topology.
func setVariable(t *testing.T, cluster *unstructured.Unstructured, name string, value any) {
	t.Helper()
	variables := append(dropVariable(t, cluster, name), map[string]any{"name": name, "value": value})
	if err := unstructured.SetNestedSlice(cluster.Object, variables, "spec", "topology", "variables"); err != nil {
		t.Fatal(err)
	}
}

// dropVariable returns the variables without one.
func dropVariable(t *testing.T, cluster *unstructured.Unstructured, name string) []any {
	t.Helper()
	variables, _, err := unstructured.NestedSlice(cluster.Object, "spec", "topology", "variables")
	if err != nil {
		t.Fatal(err)
	}
	variables = slices.DeleteFunc(variables, func(v any) bool { return v.(map[string]any)["name"] == name })
	if err := unstructured.SetNestedSlice(cluster.Object, variables, "spec", "topology", "variables"); err != nil {
		t.Fatal(err)
	}
	return variables
}

// checkKubeVIP parses the static Pod like the kubelet.
func checkKubeVIP(t *testing.T, manifest string) {
	t.Helper()
	env := kubeVIP(t, manifest)
	if env["address"] != required["CONTROL_PLANE_ENDPOINT_HOST"] || env["port"] != "7443" || env["vip_interface"] != "" ||
		env["kubernetes_addr"] != "kubernetes:7443" || env["vip_subnet"] != "32,128" {
		t.Errorf("kube-vip's environment: %v", env)
	}
}

// kubeVIP returns the environment of the static Pod.
func kubeVIP(t *testing.T, manifest string) map[string]string {
	t.Helper()
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(manifest), &pod); err != nil {
		t.Fatalf("kube-vip's Pod: %v", err)
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	return env
}

// leasesOfKubeVIP returns the lease duration, renew deadline and retry period.
func leasesOfKubeVIP(t *testing.T, manifest string) string {
	t.Helper()
	env := kubeVIP(t, manifest)
	return env["vip_leaseduration"] + " " + env["vip_renewdeadline"] + " " + env["vip_retryperiod"]
}

// checkOwn: what ownVariables say arrives at either role, and nothing where nothing was said.
func (p topology) checkOwn(t *testing.T, kcp controlplanev1.KubeadmControlPlane, templates []infrav1.IngotMachineTemplate) {
	t.Helper()
	want, got := map[string]any{}, map[string]any{}
	if p.controlPlanes == slowEtcd {
		want = ownVariables(t)
		want["users of workers"] = want["users"]
		want["cleaning of workers"] = want["cleaning"]
	}
	collect := func(name string, value any) {
		data, err := json.Marshal(value)
		var plain any
		if err == nil {
			err = json.Unmarshal(data, &plain)
		}
		if err != nil {
			t.Fatal(err)
		}
		if plain != nil && plain != "" {
			got[name] = plain
		}
	}
	var configs bootstrapv1.KubeadmConfigTemplateList
	if err := p.list(t.Context(), &configs); err != nil || len(configs.Items) != 1 {
		t.Fatalf("%d bootstrap templates, error %v", len(configs.Items), err)
	}
	collect("users", kcp.Spec.KubeadmConfigSpec.Users)
	collect("users of workers", configs.Items[0].Spec.Template.Spec.Users)
	for _, template := range templates {
		role, cleaning, spec := "worker", "cleaning of workers", template.Spec.Template.Spec
		if kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name == template.Name {
			role, cleaning = "controlPlane", "cleaning"
		}
		collect(role+"NetworkData", spec.NetworkData)
		collect(role+"RootDeviceHints", spec.RootDeviceHints)
		collect(role+"SoftwareRAID", spec.SoftwareRAID)
		collect(cleaning, spec.Cleaning)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of a control plane of %d (-want +got):\n%s", p.controlPlanes, diff)
	}
}

func (p topology) checkMachines(t *testing.T, templates []infrav1.IngotMachineTemplate) {
	t.Helper()
	var selectors []string
	for _, m := range templates {
		spec := m.Spec.Template.Spec
		if spec.Image.URL != required["INGOT_IMAGE_URL"] || spec.Image.Checksum != required["INGOT_IMAGE_CHECKSUM"] {
			t.Errorf("%s installs %v", m.Name, spec.Image)
		}
		data, err := json.Marshal(spec.HostSelector)
		if err != nil {
			t.Fatal(err)
		}
		selectors = append(selectors, string(data))
	}
	slices.Sort(selectors)
	if diff := cmp.Diff([]string{`{"architecture":"amd64"}`, `{"matchLabels":{"class":"small"},"architecture":"amd64"}`}, selectors); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
}

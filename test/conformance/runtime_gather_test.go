// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	clusterctl "sigs.k8s.io/cluster-api/cmd/clusterctl/client"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/test/eventually"
)

// furtherProvider looks at one of the further providers of a release; variables are those of
// its installation in another namespace.
func furtherProvider(t *testing.T, kind clusterctlv1.ProviderType, file string, variables map[string]string) FurtherProvider {
	t.Helper()
	out := FurtherProvider{Files: readDir(t, filepath.Dir(file))}
	out.Components, _ = parse(out.Files[filepath.Base(file)]) // K02 reports an error
	install := func(namespace string, variables map[string]string) Installation {
		settings := map[string]any{"providers": []any{map[string]any{
			"name": "ingot", "type": string(kind), "url": file,
		}}}
		for name, value := range variables {
			settings[name] = value
		}
		data, err := yaml.Marshal(settings)
		check(t, err)
		path := filepath.Join(t.TempDir(), "clusterctl.yaml")
		check(t, os.WriteFile(path, data, 0o600))
		c, err := clusterctl.New(t.Context(), path)
		check(t, err)
		components, err := c.GenerateProvider(t.Context(), "ingot:"+shippedVersion, kind, clusterctl.ComponentsOptions{TargetNamespace: namespace})
		if err != nil {
			return Installation{Namespace: namespace, Err: err.Error()}
		}
		return Installation{Namespace: components.TargetNamespace(), Objects: components.Objs(), Variables: components.Variables()}
	}
	out.Installed = install("", nil)
	out.Elsewhere = install(elsewhere, variables)
	return out
}

// caller is a client of the extension, which is not Cluster API's.
type caller struct {
	url      string
	http     *http.Client
	operator client.Client
	manager  client.Client
	calls    []HookCall
}

// callHooks runs the extension by its role over the API server, and calls it.
func (s *Shipped) callHooks(t *testing.T, cfg *rest.Config, operator, manager client.Client) {
	t.Helper()
	c := startExtension(t, cfg)
	c.operator, c.manager = operator, manager
	class, err := parse(s.Files["clusterclass-ingot-runtime.yaml"])
	check(t, err)
	for _, o := range class {
		switch o.GetKind() {
		case "ClusterClass", "IngotClusterTemplate", "IngotMachineTemplate":
			o.SetNamespace("default")
			check(t, operator.Create(t.Context(), &o))
		}
	}
	for _, version := range []string{"v1.36.1", "v1.38.0"} {
		image := &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "os-" + version}}
		image.Spec = infrav1.IngotImageSpec{KubernetesVersion: version, OS: "os", Architecture: "amd64", URL: "https://images.example/" + version, Checksum: "sha256:" + strings.Repeat("ab", 32)}
		check(t, operator.Create(t.Context(), image))
	}
	c.mutation(t)
	c.lifecycle(t)
	c.strange(t)
	c.discover(t)
	s.Runtime.Calls = c.calls
}

func startExtension(t *testing.T, cfg *rest.Config) *caller {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewAuthority("hooks")
	check(t, err)
	serving, err := ca.Server("hooks", nil)
	check(t, err)
	check(t, serving.Write(dir, "tls"))
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData, Token: cfg.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	check(t, clientcmd.WriteToFile(*config, kubeconfig))
	ports, err := controlplane.FreePorts(2)
	check(t, err)
	o := app.DefaultOptions()
	o.Roles, o.Kubeconfig = []string{app.RoleHooks}, kubeconfig
	o.Hooks.Host, o.Hooks.Port, o.Hooks.CertDir = "127.0.0.1", ports[0], dir
	o.HealthAddress, o.Manager.DiagnosticsAddress, o.Manager.InsecureDiagnostics = fmt.Sprintf("127.0.0.1:%d", ports[1]), "0", true
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o, app.HostSockets) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM())
	c := &caller{url: fmt.Sprintf("https://127.0.0.1:%d", ports[0]), http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}}
	t.Cleanup(func() { c.http.CloseIdleConnections(); cancel(); check(t, <-done) })
	eventually.Wait{}.Until(t, "the extension to listen", eventually.Works(func(context.Context) error {
		answer, err := c.http.Get(c.url)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err
	}))
	return c
}

// state is what a hook could have changed.
func (c *caller) state(t *testing.T) (digest string, promises int) {
	t.Helper()
	for _, kind := range []string{"IngotReservation", kindHost, kindTemplate, "IngotImage"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(group + "/" + v1beta2)
		list.SetKind(kind + "List")
		check(t, c.operator.List(t.Context(), list))
		for i := range list.Items {
			digest += fmt.Sprintf("%s/%s@%s ", kind, list.Items[i].GetName(), list.Items[i].GetResourceVersion())
		}
		if kind == "IngotReservation" {
			promises = len(list.Items)
		}
	}
	return digest, promises
}

// send makes a call with a body and writes it down.
func (c *caller) send(t *testing.T, call HookCall, body []byte) {
	t.Helper()
	before, _ := c.state(t)
	began := time.Now()
	request, err := http.NewRequestWithContext(t.Context(), call.Method, c.url+call.Path, bytes.NewReader(body))
	check(t, err)
	answer, err := c.http.Do(request)
	check(t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	check(t, err)
	call.Took, call.Code, call.TLS = time.Since(began), answer.StatusCode, answer.TLS != nil && len(answer.TLS.VerifiedChains) > 0
	_ = json.Unmarshal(data, &call.Answer) // nil is what the checks see
	_ = json.Unmarshal(body, &call.Request)
	after, promises := c.state(t)
	call.Wrote, call.Promises = before != after, promises
	c.calls = append(c.calls, call)
}

// ask calls a hook by its handler.
func (c *caller) ask(t *testing.T, name, hook, handler string, request map[string]any) {
	t.Helper()
	path := "/" + hookVersion + "/" + strings.ToLower(hook)
	if handler != "" {
		path += "/" + handler
	}
	if strings.Contains(hook, "UpdateMachine") || name == callInPlaceDiscovery {
		path = "/in-place" + path
	}
	full := map[string]any{"apiVersion": hookVersion, "kind": hook + "Request", "settings": map[string]any{"a": "b"}}
	for k, v := range request {
		full[k] = v
	}
	body, err := json.Marshal(full)
	check(t, err)
	c.send(t, HookCall{Name: name, Hook: hook, Method: http.MethodPost, Path: path}, body)
}

func (c *caller) discover(t *testing.T) {
	t.Helper()
	c.ask(t, callInPlaceDiscovery, "Discovery", "", nil)
	c.ask(t, callDiscovery, "Discovery", "", nil)
	c.ask(t, callDiscovery, "Discovery", "", nil)
}

func (c *caller) mutation(t *testing.T) {
	t.Helper()
	template := map[string]any{"apiVersion": group + "/" + v1beta2, "kind": kindTemplate, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
		"imageRef": map[string]any{"name": "os-v1.36.1"},
	}}}}
	holder := map[string]any{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "name": "md-0", "namespace": "default", "fieldPath": "spec"}
	item := map[string]any{"uid": "1", "holderReference": holder, "object": template, "variables": []any{
		map[string]any{"name": "builtin", "value": map[string]any{"machineDeployment": map[string]any{"version": "v1.36.1", "topologyName": "md-0"}}},
	}}
	c.ask(t, callVariables, "DiscoverVariables", "discover-variables", nil)
	global := []any{map[string]any{"name": "builtin", "value": map[string]any{"cluster": map[string]any{"name": "c", "namespace": "default"}}}}
	c.ask(t, callPatches, "GeneratePatches", "generate-patches", map[string]any{"variables": global, "items": []any{item}})
	c.ask(t, callPatches, "GeneratePatches", "generate-patches", map[string]any{"variables": global, "items": []any{item}})
	c.ask(t, callValidation, "ValidateTopology", "validate-topology", map[string]any{"items": []any{item}})
	machine := map[string]any{"apiVersion": group + "/" + v1beta2, "kind": kindMachine, "metadata": map[string]any{"name": "m", "namespace": "default"}, "spec": map[string]any{"cleaning": "None"}}
	changed := cloneMap(machine)
	changed["spec"] = map[string]any{"cleaning": "Metadata"}
	c.ask(t, callCanUpdate, "CanUpdateMachine", "can-update-machine", map[string]any{
		"current": map[string]any{"infrastructureMachine": machine}, "desired": map[string]any{"infrastructureMachine": changed},
	})
}

// clusterOf is a Cluster of the class as Cluster API sends it.
func clusterOf(name string, workers int, edits ...func(*unstructured.Unstructured)) map[string]any {
	o := object("cluster.x-k8s.io/v1beta2", coreCluster, "default", name)
	set(o, "uid-"+name, "metadata", "uid")
	set(o, map[string]any{
		"classRef": map[string]any{"name": "ingot-runtime"}, "version": "v1.36.1", "controlPlane": map[string]any{"replicas": int64(1)},
		"workers": map[string]any{"machineDeployments": []any{map[string]any{"class": "default-worker", "name": "md-0", "replicas": int64(workers)}}},
	}, "spec", "topology")
	for _, edit := range edits {
		edit(o)
	}
	return map[string]any{"cluster": o.Object}
}

func builtBy(kind string) func(*unstructured.Unstructured) {
	return with(map[string]any{"apiGroup": group, "kind": kind, "name": "c"}, "spec", "infrastructureRef")
}

func (c *caller) lifecycle(t *testing.T) {
	t.Helper()
	ours := builtBy(kindCluster)
	for range 2 {
		c.ask(t, callHeldCreate, "BeforeClusterCreate", "before-cluster-create", clusterOf("held", 2))
	}
	c.host(t)
	for range 2 {
		c.ask(t, callGrantedCreate, "BeforeClusterCreate", "before-cluster-create", clusterOf("granted", 0))
	}
	c.ask(t, callForeignCreate, "BeforeClusterCreate", "before-cluster-create", clusterOf("foreign", 2, builtBy("DockerCluster")))
	c.ask(t, callInitialized, "AfterControlPlaneInitialized", "after-control-plane-initialized", clusterOf("c", 1, ours))
	upgrade := func(fields map[string]any) map[string]any {
		out := clusterOf("c", 1, ours)
		for k, v := range fields {
			out[k] = v
		}
		return out
	}
	steps := []any{map[string]any{"version": "v1.37.0"}, map[string]any{"version": "v1.38.0"}}
	way := map[string]any{"fromKubernetesVersion": "v1.36.1", "toKubernetesVersion": "v1.38.0", "controlPlaneUpgrades": steps, "workersUpgrades": steps}
	c.ask(t, callHeldUpgrade, "BeforeClusterUpgrade", "before-cluster-upgrade", upgrade(way))
	c.ask(t, callHeldControlPlane, "BeforeControlPlaneUpgrade", "before-control-plane-upgrade", upgrade(way))
	c.ask(t, callHeldWorkers, "BeforeWorkersUpgrade", "before-workers-upgrade", upgrade(way))
	c.ask(t, callStepOne, "AfterControlPlaneUpgrade", "after-control-plane-upgrade", upgrade(map[string]any{"kubernetesVersion": "v1.37.0"}))
	c.ask(t, callStepTwo, "AfterControlPlaneUpgrade", "after-control-plane-upgrade", upgrade(map[string]any{"kubernetesVersion": "v1.38.0"}))
	c.ask(t, callWorkersUpgraded, "AfterWorkersUpgrade", "after-workers-upgrade", upgrade(map[string]any{"kubernetesVersion": "v1.38.0"}))
	c.ask(t, callUpgraded, "AfterClusterUpgrade", "after-cluster-upgrade", upgrade(map[string]any{"kubernetesVersion": "v1.38.0"}))
	c.ask(t, callRetained, "BeforeClusterDelete", "before-cluster-delete", clusterOf("c", 1, ours, annotated(infrav1.RetainAnnotation)))
	c.ask(t, callReleased, "BeforeClusterDelete", "before-cluster-delete", clusterOf("c", 1, ours))
	c.ask(t, callPlan, "GenerateUpgradePlan", "generate-upgrade-plan", upgrade(map[string]any{"fromControlPlaneKubernetesVersion": "v1.36.0", "toKubernetesVersion": "v1.36.1"}))
}

// host makes one that can be claimed, and waits until the extension knows it.
func (c *caller) host(t *testing.T) {
	t.Helper()
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hooks-1"}}
	host.Spec = infrav1.IngotHostSpec{
		BMC:            &infrav1.BMC{Address: "192.0.2.1", CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
		BootMACAddress: "02:00:00:00:00:01", NetworkRef: infrav1.NetworkReference{Name: "n"}, BootMode: infrav1.BootModeUEFI,
		Record: &infrav1.HostRecord{InspectedTime: metav1.Now(), SanitizedTime: metav1.Now()},
	}
	check(t, c.manager.Create(t.Context(), host))
	hardware := &infrav1.IngotHardware{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "hooks-1"}}
	hardware.Spec = infrav1.IngotHardwareSpec{Architecture: "amd64", MemoryBytes: 64 << 30, CPU: infrav1.HardwareCPU{Cores: 8, Threads: 16},
		Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: "s", SizeBytes: ptr.To[int64](480e9)}}}
	check(t, c.manager.Create(t.Context(), hardware))
	host.Status.Conditions = []metav1.Condition{{
		Type: infrav1.HostAvailableCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReasonAvailable,
		ObservedGeneration: host.Generation, LastTransitionTime: metav1.Now(),
	}}
	check(t, c.manager.Status().Update(t.Context(), host))
	// A Cluster that is asked for and never made tells when the cache has the host: it
	// is promised the host, and gives it back.
	known := len(c.calls)
	eventually.Wait{}.Until(t, "the host in the extension's cache", func(context.Context) (string, error) {
		c.calls = c.calls[:known]
		c.ask(t, "", "BeforeClusterCreate", "before-cluster-create", clusterOf("probe", 0))
		if c.calls[known].retry() == 0 {
			return "", nil
		}
		return fmt.Sprintf("the answer is %v", c.calls[known].Answer), nil
	})
	c.calls = c.calls[:known]
	probe := &infrav1.IngotReservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"}}
	check(t, c.manager.Delete(t.Context(), probe))
}

// strange calls are those that Cluster API does not make.
func (c *caller) strange(t *testing.T) {
	t.Helper()
	path := "/" + hookVersion + "/beforeclustercreate/before-cluster-create"
	call := func(name string) HookCall {
		return HookCall{Name: name, Hook: "BeforeClusterCreate", Method: http.MethodPost, Path: path}
	}
	c.send(t, call(callGarbage), []byte("\x00{"))
	c.send(t, call(callGarbage), []byte("\x00{"))
	const tooMuch = 21 << 20
	c.send(t, call(callOversize), bytes.Repeat([]byte(" "), tooMuch))
	c.send(t, call(callSecret), []byte(`{"apiVersion":"`+hookVersion+`","kind":"BeforeClusterCreateRequest","cluster":{"metadata":{"creationTimestamp":"`+secretMark+`"},"spec":{"topology":{"classRef":{"name":"c"}}}}}`))
	c.send(t, call(callWrongKind), []byte(`{"apiVersion":"`+hookVersion+`","kind":"BeforeClusterDeleteRequest"}`))
	get := call(callGet)
	get.Method = http.MethodGet
	c.send(t, get, nil)
}

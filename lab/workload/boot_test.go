// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/eventually"
)

const testToken = "abcdef.0123456789abcdef"

// testPlane is a plane with one endpoint. Its servers' bootstrap data is rendered by Cluster API's
// kubeadm bootstrap provider.
type testPlane struct {
	plane    *Plane
	endpoint netip.AddrPort
	certs    secret.Certificates

	mu     sync.Mutex
	events map[string][]string
}

func newTestPlane(t *testing.T) *testPlane {
	t.Helper()
	plane, err := Start(t.Context(), Config{Address: netip.MustParseAddr("127.0.0.1"), Retry: 5 * time.Millisecond})
	must(t, err)
	t.Cleanup(func() { must(t, plane.Close()) })
	endpoint, err := plane.Reserve()
	must(t, err)
	return &testPlane{plane: plane, endpoint: endpoint, certs: newCertificates(t), events: map[string][]string{}}
}

func newCertificates(t *testing.T) secret.Certificates {
	t.Helper()
	all := secret.NewCertificatesForInitialControlPlane(&bootstrapv1.ClusterConfiguration{})
	must(t, all.Generate())
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const initConfiguration = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration:
  name: '{{ ds.meta_data.local_hostname }}'
  kubeletExtraArgs:
  - name: provider-id
    value: '{{ ds.meta_data.provider_id }}'
`

func (n *testPlane) initData(t *testing.T) string {
	t.Helper()
	data, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		Certificates: n.certs, InitConfiguration: initConfiguration,
		ClusterConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\ncontrolPlaneEndpoint: " + n.endpoint.String() +
			"\nkubernetesVersion: v1.36.3\n",
	})
	must(t, err)
	return string(data)
}

// joinConfiguration returns that of a worker or of a control plane.
func (n *testPlane) joinConfiguration(token, extra string) string {
	return "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n" + extra +
		"discovery:\n  bootstrapToken:\n    apiServerEndpoint: " + n.endpoint.String() + "\n    token: " + token +
		"\n    caCertHashes: [\"" + n.pin() + "\"]\n" +
		"nodeRegistration:\n  name: '{{ ds.meta_data.local_hostname }}'\n  taints:\n  - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}\n" +
		"  kubeletExtraArgs:\n  - name: provider-id\n    value: '{{ ds.meta_data.provider_id }}'\n  - name: node-labels\n    value: a=b,c=\n"
}

// pin returns the hash of the cluster's authority in kubeadm's form.
func (n *testPlane) pin() string {
	pair, err := newAuthority(n.certs.GetByPurpose(secret.ClusterCA).KeyPair.Cert, n.certs.GetByPurpose(secret.ClusterCA).KeyPair.Key)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(pair.cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (n *testPlane) workerData(t *testing.T, token string) string {
	t.Helper()
	data, err := cloudinit.NewNode(&cloudinit.NodeInput{JoinConfiguration: n.joinConfiguration(token, "")})
	must(t, err)
	return string(data)
}

func (n *testPlane) controlPlaneData(t *testing.T, keys secret.Certificates) string {
	t.Helper()
	data, err := cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{
		Certificates: keys, JoinConfiguration: n.joinConfiguration(testToken, "controlPlane: {}\n"),
	})
	must(t, err)
	return string(data)
}

// boot powers a server on; the returned function powers it off. User data is empty after the first
// boot.
func (n *testPlane) boot(t *testing.T, name, userData string) (off func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.plane.Boot(ctx, server.System{
			Server: name, UUID: "6A1DF0CE-2A27-4F3C-8E0A-55F6F9A3F3AA", UserData: userData,
			MetaData: fmt.Sprintf("instance-id: i-%s-1\nlocal-hostname: %s\nprovider_id: lab://default/%s/i-%s\n", name, name, name, name),
			Address:  netip.MustParseAddr("10.0.0.7"),
			Event: func(format string, args ...any) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.events[name] = append(n.events[name], fmt.Sprintf(format, args...))
			},
		})
	}()
	var once sync.Once
	off = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(off)
	return off
}

// said waits until a server has logged a text.
func (n *testPlane) said(t *testing.T, name, what string) {
	t.Helper()
	n.await(t, name+" to say "+what, func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.ContainsFunc(n.events[name], func(e string) bool { return strings.Contains(e, what) })
	})
}

func (n *testPlane) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventually.Wait{Interval: 2 * time.Millisecond, Explain: func() string {
		n.mu.Lock()
		defer n.mu.Unlock()
		return fmt.Sprintf("said: %v", n.events)
	}}.Until(t, what, eventually.Holds(ok))
}

// states returns the nodes with their Ready condition.
func (n *testPlane) states(t *testing.T) map[string]string {
	t.Helper()
	nodes, err := n.plane.Nodes(t.Context(), n.endpoint)
	must(t, err)
	states := map[string]string{}
	for _, node := range nodes {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				states[node.Name] = string(c.Status)
			}
		}
	}
	return states
}

// bootIDs returns the boot IDs of the nodes.
func (n *testPlane) bootIDs(t *testing.T) map[string]string {
	t.Helper()
	nodes, err := n.plane.Nodes(t.Context(), n.endpoint)
	must(t, err)
	ids := map[string]string{}
	for _, node := range nodes {
		ids[node.Name] = node.Status.NodeInfo.BootID
	}
	return ids
}

// api returns a client with a certificate of an authority.
func (n *testPlane) api(t *testing.T, from secret.Certificates) kubernetes.Interface {
	t.Helper()
	ca, err := newAuthority(from.GetByPurpose(secret.ClusterCA).KeyPair.Cert, from.GetByPurpose(secret.ClusterCA).KeyPair.Key)
	must(t, err)
	cert, err := ca.serve("admin")
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	must(t, err)
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	clients, err := kubernetes.NewForConfig(&rest.Config{Host: "https://" + n.endpoint.String(), TLSClientConfig: rest.TLSClientConfig{
		CAData: n.certs.GetByPurpose(secret.ClusterCA).KeyPair.Cert, CertData: encode("CERTIFICATE", cert.Certificate[0]), KeyData: encode("PRIVATE KEY", key),
	}})
	must(t, err)
	return clients
}

// answers reports whether a server at the endpoint completes a TLS handshake.
func (n *testPlane) answers(t *testing.T) bool {
	t.Helper()
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} // the identity does not matter
	conn, err := dialer.DialContext(t.Context(), "tcp", n.endpoint.String())
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// token creates the bootstrap token, like the bootstrap provider.
func (n *testPlane) token(t *testing.T, expiration time.Time) {
	t.Helper()
	_, err := n.api(t, n.certs).CoreV1().Secrets(metav1.NamespaceSystem).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"},
		Type:       corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "expiration": []byte(expiration.UTC().Format(time.RFC3339)),
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// up boots a control plane with one node and a valid token.
func (n *testPlane) up(t *testing.T) (off func()) {
	t.Helper()
	off = n.boot(t, "cp-1", n.initData(t))
	n.said(t, "cp-1", "runs")
	n.token(t, time.Now().Add(time.Hour))
	return off
}

func TestInit(t *testing.T) {
	n := newTestPlane(t)
	if n.answers(t) {
		t.Error("an API server answers before kubeadm init")
	}
	n.up(t)
	if !n.answers(t) {
		t.Error("no API server answers after kubeadm init")
	}
	nodes, err := n.api(t, n.certs).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != 1 {
		t.Fatalf("%d nodes", len(nodes.Items))
	}
	node := nodes.Items[0]
	got := fmt.Sprint(node.Name, " ", node.Spec.ProviderID, " ", node.Status.NodeInfo.KubeletVersion, " ", node.Status.Addresses[0].Address, " ", node.Spec.Taints[0].Key)
	if want := "cp-1 lab://default/cp-1/i-cp-1 v1.36.3 10.0.0.7 " + controlPlaneRole; got != want {
		t.Errorf("node %q, want %q", got, want)
	}
	config, err := n.api(t, n.certs).CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "kubeadm-config", metav1.GetOptions{})
	must(t, err)
	if !strings.Contains(config.Data["ClusterConfiguration"], "controlPlaneEndpoint: "+n.endpoint.String()) {
		t.Errorf("kubeadm-config: %v", config.Data)
	}
	if _, err := n.api(t, newCertificates(t)).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a client with another authority's certificate is let in")
	}
	n.boot(t, "cp-9", n.initData(t))
	n.said(t, "cp-9", "serves at")
}

func TestJoin(t *testing.T) {
	n := newTestPlane(t)
	n.boot(t, "w-1", n.workerData(t, testToken))
	n.said(t, "w-1", "does not answer")
	n.up(t)
	n.said(t, "w-1", "runs")
	n.boot(t, "cp-2", n.controlPlaneData(t, n.certs))
	n.said(t, "cp-2", "runs")
	n.boot(t, "w-2", n.workerData(t, "abcdef.ffffffffffffffff"))
	n.said(t, "w-2", "token is wrong")
	n.boot(t, "w-3", n.workerData(t, "aaaaaa.ffffffffffffffff"))
	n.said(t, "w-3", "token does not exist")
	n.boot(t, "cp-3", n.controlPlaneData(t, newCertificates(t)))
	n.said(t, "cp-3", "another cluster")
	if diff := cmp.Diff(map[string]string{"cp-1": "True", "cp-2": "True", "w-1": "True"}, n.states(t)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	nodes, err := n.plane.Nodes(t.Context(), n.endpoint)
	must(t, err)
	for _, node := range nodes {
		if node.Name == "w-1" && (node.Labels["a"] != "b" || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "node.cluster.x-k8s.io/uninitialized") {
			t.Errorf("worker with labels %v and taints %v", node.Labels, node.Spec.Taints)
		}
	}
}

func TestExpiredToken(t *testing.T) {
	n := newTestPlane(t)
	n.boot(t, "cp-1", n.initData(t))
	n.said(t, "cp-1", "runs")
	n.token(t, time.Now().Add(-time.Hour))
	n.boot(t, "w-1", n.workerData(t, testToken))
	n.said(t, "w-1", "expired")
}

// TestPower shows that the node of a server without power becomes unknown and its etcd member stops.
// The API server stops without a majority, and the same instance returns.
func TestPower(t *testing.T) {
	n := newTestPlane(t)
	off1 := n.up(t)
	for _, name := range []string{"cp-2", "cp-3"} {
		n.boot(t, name, n.controlPlaneData(t, n.certs))
		n.said(t, name, "runs")
	}
	leader := n.leader(t)
	if leader != "etcd-cp-1" {
		t.Errorf("%s leads, want the first", leader)
	}
	first := n.bootIDs(t)
	off1()
	if diff := cmp.Diff(map[string]string{"cp-1": "Unknown", "cp-2": "True", "cp-3": "True"}, n.states(t)); diff != "" {
		t.Errorf("with one off (-want +got):\n%s", diff)
	}
	if now := n.leader(t); now == leader || now == "" {
		t.Errorf("%q leads, and its server is off", now)
	}
	if !n.plane.Serving(n.endpoint) {
		t.Error("two of three do not serve")
	}
	n.boot(t, "cp-1", "") // no user data after the first boot
	n.await(t, "cp-1 to be back", func() bool { return n.states(t)["cp-1"] == "True" })
	if now := n.bootIDs(t); now["cp-1"] == first["cp-1"] || now["cp-1"] == "" || now["cp-2"] != first["cp-2"] {
		t.Errorf("boot IDs were %v, and are %v after a boot of cp-1", first, now)
	}
}

func TestNoMajority(t *testing.T) {
	n := newTestPlane(t)
	off1 := n.up(t)
	off2 := n.boot(t, "cp-2", n.controlPlaneData(t, n.certs))
	n.said(t, "cp-2", "runs")
	clients := n.api(t, n.certs)
	watch, err := clients.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	off2()
	if n.plane.Serving(n.endpoint) {
		t.Error("one of two serves")
	}
	for range watch.ResultChan() { // ends with the connection
	}
	if n.answers(t) {
		t.Error("the API answers without a majority")
	}
	off1()
	// Without members, kubeadm init creates a new cluster.
	n.boot(t, "cp-5", n.initData(t))
	n.said(t, "cp-5", "runs")
	if diff := cmp.Diff(map[string]string{"cp-5": "True"}, n.states(t)); diff != "" {
		t.Errorf("after a new init (-want +got):\n%s", diff)
	}
	n.boot(t, "cp-1", "")
	n.said(t, "cp-1", "its cluster no longer exists")
}

// leader returns the pod of the leading etcd member.
func (n *testPlane) leader(t *testing.T) string {
	t.Helper()
	pods := &corev1.PodList{}
	must(t, n.plane.List(t.Context(), n.endpoint, pods, client.MatchingLabels{"component": "etcd"}))
	leader, since := "", ""
	for _, pod := range pods.Items {
		if at := pod.Annotations["etcd.inmemory.infrastructure.cluster.x-k8s.io/leader-from"]; at > since {
			leader, since = pod.Name, at
		}
	}
	return leader
}

// TestNodeDeleted shows that the pods and the etcd member of a deleted node are removed.
func TestNodeDeleted(t *testing.T) {
	n := newTestPlane(t)
	n.up(t)
	off2 := n.boot(t, "w-1", n.workerData(t, testToken))
	n.said(t, "w-1", "runs")
	off2()
	clients := n.api(t, n.certs)
	// Patched objects are stored as unstructured objects.
	_, err := clients.CoreV1().Nodes().Patch(t.Context(), "cp-1", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
	must(t, err)
	must(t, clients.CoreV1().Nodes().Delete(t.Context(), "w-1", metav1.DeleteOptions{}))
	if diff := cmp.Diff(map[string]string{"cp-1": "True"}, n.states(t)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	n.boot(t, "cp-2", n.controlPlaneData(t, n.certs))()
	n.await(t, "cp-2 to be a node", func() bool { return n.states(t)["cp-2"] != "" })
}

func TestUserDataWithoutKubeadm(t *testing.T) {
	n := newTestPlane(t)
	for name, data := range map[string]string{
		"plain": "#cloud-config\nruncmd: [echo]\n", "script": "#!/bin/sh\nkubeadm join --config /x\n", "empty": "",
	} {
		n.boot(t, name, data)()
		n.mu.Lock()
		if len(n.events[name]) != 0 {
			t.Errorf("%s: said %v", name, n.events[name])
		}
		n.mu.Unlock()
	}
	n.boot(t, "bad", "#cloud-config\nwrite_files: 7\n")
	n.said(t, "bad", "cloud-config")
	n.boot(t, "lost", "#cloud-config\nruncmd: ['kubeadm join --config /nowhere']\n")
	n.said(t, "lost", "no file /nowhere")
}

func TestRelease(t *testing.T) {
	n := newTestPlane(t)
	n.up(t)
	must(t, n.plane.Release(n.endpoint))
	if err := n.plane.Release(n.endpoint); err == nil {
		t.Error("released twice")
	}
	if n.plane.Serving(n.endpoint) {
		t.Error("serves after it was released")
	}
	must(t, n.plane.reserve(n.endpoint)) // the port is free again
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("a plane without an address was started")
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe/bootserver"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
)

// deployment is an API server with the shipped objects except Deployments, and the two processes of
// the Pods.
type deployment struct {
	t       *testing.T
	admin   client.Client
	config  *rest.Config
	dir     string
	objects []unstructured.Unstructured
}

// newDeployment applies the shipped namespaces, service accounts and roles.
func newDeployment(t *testing.T) *deployment {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	d := &deployment{t: t, dir: t.TempDir(), objects: installed(t, nil)}
	d.config = envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if d.admin, err = client.New(d.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, object := range d.objects {
		switch kind := object.GetKind(); {
		case kind == "Namespace", kind == "ServiceAccount", strings.HasPrefix(object.GroupVersionKind().Group, "rbac."):
			if err := d.admin.Create(t.Context(), &object); err != nil {
				t.Fatalf("%s %s: %v", kind, object.GetName(), err)
			}
		}
	}
	return d
}

// kubeconfig writes a kubeconfig with a token of the service account.
func (d *deployment) kubeconfig(account string) (path, bearer string) {
	d.t.Helper()
	request := &authenticationv1.TokenRequest{}
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(account), Name: account}}
	if err := d.admin.SubResource("token").Create(d.t.Context(), sa, request); err != nil {
		d.t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: d.config.Host, CertificateAuthorityData: d.config.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path = filepath.Join(d.dir, account+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		d.t.Fatal(err)
	}
	return path, request.Status.Token
}

// namespaceOf returns the namespace of a Deployment's service account.
func namespaceOf(account string) string {
	if account == "ingot-boot" {
		return "ingot-boot-system"
	}
	return "ingot-system"
}

// run starts the process of a Deployment with its arguments and overrides for the test, and returns
// its sockets.
func (d *deployment) run(name string, overrides ...string) *Sockets {
	d.t.Helper()
	container := find[appsv1.Deployment](d.t, d.objects, "Deployment", name).Spec.Template.Spec.Containers[0]
	kubeconfig, _ := d.kubeconfig(name)
	options := DefaultOptions()
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	options.AddFlags(fs)
	args := expand(container.Args, podEnvironment(container))
	if err := fs.Parse(append(append(args, "--kubeconfig="+kubeconfig), overrides...)); err != nil {
		d.t.Fatal(err)
	}
	sockets := loopback(d.t)
	ctx, cancel := context.WithCancel(context.Background())
	var failure error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		failure = Run(ctx, options, func(context.Context, *Options) (*Sockets, error) { return sockets, nil })
	}()
	d.t.Cleanup(func() {
		cancel()
		<-ended
		if failure != nil {
			d.t.Errorf("%s: %v", name, failure)
		}
	})
	d.await("http://"+options.HealthAddress+"/readyz", http.StatusOK, ended)
	return sockets
}

// await requests url until it returns the status.
func (d *deployment) await(url string, status int, ended <-chan struct{}) {
	d.t.Helper()
	alive := func() error {
		select {
		case <-ended:
			return errors.New("the process ended")
		default:
			return nil
		}
	}
	eventually.Wait{Interval: 100 * time.Millisecond, Broken: alive}.Until(d.t, fmt.Sprintf("%d from %s", status, url), func(context.Context) (string, error) {
		got, _ := get(d.t, url, "")
		if got == status {
			return "", nil
		}
		return fmt.Sprintf("the status is %d", got), nil
	})
}

// get sends a request over HTTP or unverified HTTPS with a bearer token. Status 0 means no answer.
func get(t *testing.T, url, bearer string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // self-signed, on loopback
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// loopback opens sockets on free loopback ports.
func loopback(t *testing.T) *Sockets {
	t.Helper()
	tcp := func() net.Listener {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	udp := func() net.PacketConn {
		c, err := net.ListenPacket("udp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s := &Sockets{Agent: tcp(), Boot: bootserver.Sockets{DHCP: udp(), BINL: udp(), TFTP: udp(), HTTP: tcp()}}
	t.Cleanup(s.Close)
	return s
}

// freeAddress returns a free loopback address.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func (d *deployment) write(dir, name string, data []byte) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Join(d.dir, dir), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, dir, name), data, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// startManager runs the manager, and returns its sockets and diagnostics URL.
func (d *deployment) startManager() (*Sockets, string) {
	d.t.Helper()
	crt, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	d.write("certs", "tls.crt", crt)
	d.write("certs", "tls.key", key)
	_, webhookPort, err := net.SplitHostPort(freeAddress(d.t))
	if err != nil {
		d.t.Fatal(err)
	}
	diagnostics := freeAddress(d.t)
	return d.run("ingot-controller-manager", "--health-addr="+freeAddress(d.t), "--diagnostics-address="+diagnostics,
		"--webhook-host=127.0.0.1", "--webhook-port="+webhookPort, "--webhook-cert-dir="+filepath.Join(d.dir, "certs"),
		"--leader-elect-namespace=ingot-system"), "https://" + diagnostics
}

// startBoot runs the boot server with the keys mounted.
func (d *deployment) startBoot(upstream string) *Sockets {
	d.t.Helper()
	secret := &corev1.Secret{}
	eventually.Wait{Interval: 100 * time.Millisecond}.Until(d.t, "the boot servers' keys", eventually.Works(func(ctx context.Context) error {
		return d.admin.Get(ctx, client.ObjectKey{Namespace: "ingot-boot-system", Name: "ingot-agent-keys"}, secret)
	}))
	if len(secret.Data) != 2 {
		d.t.Errorf("the Secret of the boot servers has %d keys, want the token key and the pins", len(secret.Data))
	}
	for _, name := range []string{token.FileHMAC, token.FilePins} {
		d.write("keys", name, secret.Data[name])
	}
	for _, name := range []string{"undionly.kpxe", "snponly.efi"} {
		d.write("loaders", name, []byte(name))
	}
	for _, name := range []string{agentKernel, agentInitramfs} {
		d.write("image", name, []byte(name))
	}
	return d.run("ingot-boot", "--health-addr="+freeAddress(d.t), "--diagnostics-address="+freeAddress(d.t),
		"--agent-key-dir="+filepath.Join(d.dir, "keys"), "--agent-image-dir="+filepath.Join(d.dir, "image"),
		"--loader-dir="+filepath.Join(d.dir, "loaders"), "--image-cache-dir="+filepath.Join(d.dir, "images"), "--agent-upstream="+upstream)
}

// The two Deployments work with the shipped roles: keys are created, both become ready, an agent
// reaches its API only through the boot server, diagnostics are authorized, and objects are migrated.
func TestDeployments(t *testing.T) {
	d := newDeployment(t)
	manager, diagnostics := d.startManager()
	boot := d.startBoot(manager.Agent.Addr().String())

	t.Run("agent through the boot server", func(t *testing.T) {
		refusal, err := d.callAgentAPI(boot.Agent.Addr())
		if err != nil || !strings.Contains(refusal, string(agentapi.ReasonTokenInvalid)) {
			t.Errorf("the agent API answered %q, error %v", refusal, err)
		}
	})
	t.Run("agent past the boot server", func(t *testing.T) {
		if answer, err := d.callAgentAPI(manager.Agent.Addr()); err == nil {
			t.Errorf("the agent API answered %q to an agent without a boot server", answer)
		}
	})
	t.Run("diagnostics", func(t *testing.T) { d.checkDiagnostics(t, diagnostics) })
	t.Run("migration", func(t *testing.T) { d.checkMigration(t) })
	t.Run("leader", func(t *testing.T) { d.checkLeader(t) })
	t.Run("boot server reads no Secret", func(t *testing.T) {
		path, _ := d.kubeconfig("ingot-boot")
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range []string{"ingot-system", "ingot-boot-system"} {
			err = c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "ingot-agent-keys"}, &corev1.Secret{})
			if !apierrors.IsForbidden(err) {
				t.Errorf("get in %s = %v", namespace, err)
			}
		}
	})
}

// callAgentAPI calls the agent API without a token, and verifies the pin of its key.
func (d *deployment) callAgentAPI(address net.Addr) (string, error) {
	files, err := token.ReadDir(filepath.Join(d.dir, "keys"))
	if err != nil {
		return "", err
	}
	pins, err := files.Pins()
	if err != nil {
		return "", err
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify: true, // the pin is verified instead (I15)
		VerifyConnection: func(state tls.ConnectionState) error {
			if pin := token.PinOf(state.PeerCertificates[0].RawSubjectPublicKeyInfo); pin != pins[0] {
				return fmt.Errorf("pin %s is not %s", pin, pins[0])
			}
			return nil
		},
	}}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	response, err := c.Post("https://"+address.String()+agentapi.PathSession, "application/json", strings.NewReader("{}"))
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

// checkLeader checks that the manager holds the Lease and records an event.
func (d *deployment) checkLeader(t *testing.T) {
	lease := &coordinationv1.Lease{}
	if err := d.admin.Get(t.Context(), client.ObjectKey{Namespace: "ingot-system", Name: leaderLock}, lease); err != nil {
		t.Fatal(err)
	}
	eventually.Wait{Interval: 100 * time.Millisecond}.Until(t, fmt.Sprintf("an event that %s leads", *lease.Spec.HolderIdentity), eventually.Holds(func() bool {
		events := &corev1.EventList{}
		if err := d.admin.List(t.Context(), events, client.InNamespace("ingot-system")); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(event corev1.Event) bool {
			return event.Reason == "LeaderElection" && event.InvolvedObject.Name == leaderLock
		})
	}))
}

// checkDiagnostics checks that metrics require HTTPS and RBAC.
func (d *deployment) checkDiagnostics(t *testing.T, url string) {
	reader := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ingot-system", Name: "metrics-reader"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "metrics-reader"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "ingot-system", Name: "metrics-reader"}}}
	for _, object := range []client.Object{reader, role, binding} {
		if err := d.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	_, allowed := d.kubeconfig("metrics-reader")
	_, denied := d.kubeconfig("ingot-boot")
	for name, tc := range map[string]struct {
		path, bearer string
		want         int
	}{
		"no token":           {"/metrics", "", http.StatusUnauthorized},
		"an unknown token":   {"/metrics", "no-token", http.StatusInternalServerError}, // by controller-runtime
		"without permission": {"/metrics", denied, http.StatusForbidden},
		"with permission":    {"/metrics", allowed, http.StatusOK},
		"profiles":           {"/debug/pprof/", allowed, http.StatusForbidden},
	} {
		if got, body := get(t, url+tc.path, tc.bearer); got != tc.want || got == http.StatusOK && !strings.Contains(body, "controller_runtime_") {
			t.Errorf("%s: status %d, want %d: %.100s", name, got, tc.want, body)
		}
	}
}

// checkMigration checks that the migrator has processed every definition.
func (d *deployment) checkMigration(t *testing.T) {
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	definition.APIVersion = "apiextensions.k8s.io/v1"
	for _, object := range d.objects {
		if object.GetKind() != "CustomResourceDefinition" {
			continue
		}
		explain := func() string { return fmt.Sprintf("annotations: %v", definition.Annotations) }
		eventually.Wait{Interval: 100 * time.Millisecond, Explain: explain}.Until(t, "a look at "+object.GetName(), eventually.Holds(func() bool {
			if err := d.admin.Get(t.Context(), client.ObjectKey{Name: object.GetName()}, definition); err != nil {
				t.Fatal(err)
			}
			return definition.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation] == strconv.FormatInt(definition.Generation, 10)
		}))
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/test/eventually"
)

// InPlaceLabel of namespaces whose machines may be updated in place, where it is "on".
const InPlaceLabel = "ingot.infrastructure.cluster.x-k8s.io/in-place-updates"

// Extension is the runtime extension in this process, by its role, made known to Cluster
// API as the release does, but by URL: there are no Services without a network.
type Extension struct{ proof *recorder }

// Calls of Cluster API to the extension, so far.
func (e *Extension) Calls() []Call { return e.proof.all() }

// Extend starts the extension at a management cluster whose Cluster API has RuntimeSDK on,
// and waits until both of its ExtensionConfigs are discovered. With clients it hears
// nobody else (mTLS); nil: it hears all. It ends with the test.
func Extend(t testing.TB, kubeconfig string, c client.Client, clients *Clients) *Extension {
	t.Helper()
	must(t, runtimev1.AddToScheme(c.Scheme()))
	place := servingPlace(t)
	o := place.options(kubeconfig)
	if clients != nil {
		o.Hooks.ClientCA = "client-ca.crt" // as the Deployment's variable says
		must(t, os.WriteFile(filepath.Join(place.certificates, o.Hooks.ClientCA), clients.authority, 0o600))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, o, app.HostSockets) }()
	e := &Extension{proof: record(place.URL(), place.authority.CertificatePEM(), clients)}
	t.Cleanup(func() {
		e.proof.stop()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the extension ended: %v", err)
		}
	})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.proof.server.Certificate().Raw})
	for _, config := range shipped(t) {
		// There are no Services here: the path, the selector and the name are the release's.
		config.Annotations = nil
		config.Spec.ClientConfig = runtimev1.ClientConfig{URL: e.proof.server.URL + config.Spec.ClientConfig.Service.Path, CABundle: certificate}
		must(t, c.Create(t.Context(), &config))
		awaitDiscovered(t, c, &config)
	}
	return e
}

// shipped are the ExtensionConfigs that the release brings.
func shipped(t testing.TB) []runtimev1.ExtensionConfig {
	t.Helper()
	set, err := tools.Open()
	must(t, err)
	data, err := os.ReadFile(filepath.Join(set.Root(), "config", "runtime-extension", "extension_config.yaml"))
	must(t, err)
	var out []runtimev1.ExtensionConfig
	for document := range strings.SplitSeq(string(data), "\n---\n") {
		config := runtimev1.ExtensionConfig{}
		must(t, yaml.UnmarshalStrict([]byte(document), &config))
		out = append(out, config)
	}
	return out
}

func awaitDiscovered(t testing.TB, c client.Client, config *runtimev1.ExtensionConfig) {
	t.Helper()
	eventually.Wait{Limit: awaitLimit, Interval: 200 * time.Millisecond}.Until(t, "the discovery of "+config.Name, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(config), config)
		if err == nil && slices.ContainsFunc(config.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == runtimev1.ExtensionConfigDiscoveredCondition && c.Status == metav1.ConditionTrue
		}) {
			return "", nil
		}
		return fmt.Sprintf("its conditions are %v", config.Status.Conditions), err
	})
}

// Clients are those that the extension is to hear: one certificate, for Cluster API's
// managers.
type Clients struct {
	// Cert and Key are its files.
	Cert, Key   string
	authority   []byte
	certificate tls.Certificate
}

// NewClients makes them.
func NewClients(t testing.TB) *Clients {
	t.Helper()
	authority, err := pki.NewAuthority("cluster-api")
	must(t, err)
	pair, err := authority.Client("capi-controller-manager")
	must(t, err)
	dir := t.TempDir()
	must(t, pair.Write(dir, "client"))
	c := &Clients{Cert: filepath.Join(dir, "client.crt"), Key: filepath.Join(dir, "client.key"), authority: authority.CertificatePEM()}
	c.certificate, err = tls.LoadX509KeyPair(c.Cert, c.Key)
	must(t, err)
	return c
}

// serving is where an extension is to serve, and what it proves itself by.
type serving struct {
	authority    *pki.KeyPair
	certificates string
	port, health int
}

// servingPlace makes one on loopback.
func servingPlace(t testing.TB) serving {
	t.Helper()
	s := serving{certificates: t.TempDir()}
	var err error
	s.authority, err = pki.NewAuthority("hooks")
	must(t, err)
	pair, err := s.authority.Server("hooks", nil)
	must(t, err)
	must(t, pair.Write(s.certificates, "tls"))
	ports, err := controlplane.FreePorts(2)
	must(t, err)
	s.port, s.health = ports[0], ports[1]
	return s
}

// URL of the hooks.
func (s serving) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", s.port) }

// options of the extension that serves there.
func (s serving) options(kubeconfig string) *app.Options {
	return optionsOf(orders{Kubeconfig: kubeconfig, CertDir: s.certificates, Port: s.port, Health: s.health})
}

func optionsOf(told orders) *app.Options {
	o := app.DefaultOptions()
	o.Roles, o.Kubeconfig = []string{app.RoleHooks}, told.Kubeconfig
	o.Hooks.Host, o.Hooks.Port, o.Hooks.CertDir = "127.0.0.1", told.Port, told.CertDir
	o.KubeAPIQPS, o.KubeAPIBurst = 500, 1000 // as the Deployment says
	o.HealthAddress, o.Manager.DiagnosticsAddress, o.Manager.InsecureDiagnostics = fmt.Sprintf("127.0.0.1:%d", told.Health), "0", true
	return o
}

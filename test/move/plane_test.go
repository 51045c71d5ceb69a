// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	clusterctlconfig "sigs.k8s.io/cluster-api/cmd/clusterctl/config"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	crenvtest "sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	"github.com/ingot-metal/ingot/bmc/trust"
	"github.com/ingot-metal/ingot/controllers/host"
	"github.com/ingot-metal/ingot/controllers/move"
	"github.com/ingot-metal/ingot/controllers/reservation"
	"github.com/ingot-metal/ingot/internal/index"
	internalipam "github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// plane is one management cluster: an API server with what clusterctl init leaves
// in it.
type plane struct {
	t          *testing.T
	name       string
	config     *rest.Config
	client     client.Client
	kubeconfig string
	// probes counts the looks at certificates that are to be pinned.
	probes atomic.Int64
}

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	return testscheme.Scheme(t, apiextensionsv1.AddToScheme, clusterctlv1.AddToScheme, ipamv1.AddToScheme)
}

// startPlanes starts management clusters side by side.
func startPlanes(t *testing.T, names ...string) []*plane {
	t.Helper()
	clusterctl := t.TempDir()
	if err := os.WriteFile(filepath.Join(clusterctl, "clusterctl.yaml"), clusterctlconfig.ClusterctlAPIManifest, 0o600); err != nil {
		t.Fatal(err)
	}
	environments := make([]*crenvtest.Environment, len(names))
	var started errgroup.Group
	for i := range names {
		env := envtest.Environment(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t), clusterctl)
		environments[i] = env
		t.Cleanup(func() {
			if err := env.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		started.Go(func() error {
			_, err := env.Start()
			return err
		})
	}
	if err := started.Wait(); err != nil {
		t.Fatal(err)
	}
	var planes []*plane
	for i, name := range names {
		planes = append(planes, newPlane(t, name, environments[i].Config))
	}
	return planes
}

func newPlane(t *testing.T, name string, config *rest.Config) *plane {
	t.Helper()
	p := &plane{t: t, name: name, config: config}
	p.config.QPS, p.config.Burst = 200, 400
	var err error
	if p.client, err = client.New(p.config, client.Options{Scheme: schemeOf(t)}); err != nil {
		t.Fatal(err)
	}
	p.writeKubeconfig()
	p.labelDefinitions()
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ingot-system"}})
	p.create(&clusterctlv1.Provider{
		ObjectMeta:   metav1.ObjectMeta{Namespace: "ingot-system", Name: "infrastructure-ingot", Labels: map[string]string{clusterctlv1.ClusterctlLabel: "", clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue}},
		ProviderName: "ingot", Type: string(clusterctlv1.InfrastructureProviderType), Version: "v0.1.0",
	})
	return p
}

// labelDefinitions does what clusterctl init does to every object that it installs.
func (p *plane) labelDefinitions() {
	p.t.Helper()
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := p.client.List(p.t.Context(), definitions); err != nil {
		p.t.Fatal(err)
	}
	for i := range definitions.Items {
		crd := &definitions.Items[i]
		base := crd.DeepCopy()
		if crd.Labels == nil {
			crd.Labels = map[string]string{}
		}
		crd.Labels[clusterctlv1.ClusterctlLabel] = ""
		if err := p.client.Patch(p.t.Context(), crd, client.MergeFrom(base)); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *plane) writeKubeconfig() {
	p.t.Helper()
	p.kubeconfig = filepath.Join(p.t.TempDir(), p.name+".kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{p.name: {Server: p.config.Host, CertificateAuthorityData: p.config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{p.name: {ClientCertificateData: p.config.CertData, ClientKeyData: p.config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{p.name: {Cluster: p.name, AuthInfo: p.name}},
		CurrentContext: p.name,
	}, p.kubeconfig)
	if err != nil {
		p.t.Fatal(err)
	}
}

// clusterctl is the library of clusterctl for this cluster.
func (p *plane) clusterctl() cluster.Client {
	return cluster.New(cluster.Kubeconfig{Path: p.kubeconfig, Context: p.name}, nil)
}

func (p *plane) create(obj client.Object) {
	p.t.Helper()
	if err := p.client.Create(p.t.Context(), obj); err != nil {
		p.t.Fatalf("%s: create %T: %v", p.name, obj, err)
	}
}

func (p *plane) get(obj client.Object, name string) bool {
	p.t.Helper()
	err := p.client.Get(p.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if client.IgnoreNotFound(err) != nil {
		p.t.Fatal(err)
	}
	return err == nil
}

func (p *plane) hosts() map[string]*infrav1.IngotHost {
	p.t.Helper()
	list := &infrav1.IngotHostList{}
	if err := p.client.List(p.t.Context(), list, client.InNamespace(namespace)); err != nil {
		p.t.Fatal(err)
	}
	out := map[string]*infrav1.IngotHost{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out
}

// run starts the controllers of hosts as the manager does, until the test ends.
func (p *plane) run() {
	p.t.Helper()
	credentials, err := labels.NewRequirement(infrav1.BMCCredentialsLabel, selection.Exists, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	labelled := cache.ByObject{Label: labels.NewSelector().Add(*credentials)}
	mgr, err := ctrl.NewManager(p.config, ctrl.Options{
		Scheme: schemeOf(p.t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // two managers in one process
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: labelled, &corev1.ConfigMap{}: labelled}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	if err := index.Setup(ctx, mgr.GetFieldIndexer()); err != nil {
		p.t.Fatal(err)
	}
	pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	policy := lifecycle.DefaultPolicy()
	policy.ResetInterval = time.Second
	for _, setup := range []error{
		(&host.Reconciler{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), BMC: pool, Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{},
			Policy: policy, Poll: time.Second, NewID: uuid.NewString, Fingerprint: p.fingerprint, Addresses: &internalipam.Memory{},
		}).SetupWithManager(mgr, controller.Options{MaxConcurrentReconciles: 10}),
		(&reservation.Reconciler{
			Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("ingot"), Clock: clock.RealClock{}, Timing: timing.Timing{ReservationCheck: time.Second},
		}).SetupWithManager(mgr, controller.Options{}),
		(&move.Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(mgr, controller.Options{}),
	} {
		if setup != nil {
			p.t.Fatal(setup)
		}
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("%s: manager: %v", p.name, err)
		}
		closing, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = pool.Close(closing)
	})
}

func (p *plane) fingerprint(ctx context.Context, address string) (string, error) {
	p.probes.Add(1)
	return trust.Probe(ctx, bmc.Target{}, address)
}

// patience bounds each wait: all hosts of the yard begin at once, on whatever machine this is.
const patience = 3 * time.Minute

// until waits for something that has to come about.
func (p *plane) until(what string, done func() string) {
	p.t.Helper()
	eventually.Wait{Limit: patience}.Until(p.t, p.name+" "+what, func(context.Context) (string, error) { return done(), nil })
}

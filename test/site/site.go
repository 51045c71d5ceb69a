// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/lab/clusterapi"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/management"
)

// Version is what the release of this source tree is called here.
const Version = "v0.1.0"

// infrastructureGroup is audited with bodies.
const infrastructureGroup = "infrastructure.cluster.x-k8s.io"

// Config describes a site.
type Config struct {
	// World is the hardware; nil makes one of a single server.
	World *World
	// Name tells the sites of a world apart; "a" if empty.
	Name string
	// Namespace of hosts and clusters where nothing else is said; "default" if
	// empty. It is made if missing.
	Namespace string
	// ManagerArgs are further flags of Ingot's manager; the last of several counts.
	ManagerArgs []string
	// NoManager leaves it to StartManager.
	NoManager bool
	// FeatureGates of Cluster API's managers that are on besides ClusterTopology.
	FeatureGates []string
	// Interval is the pause between two looks of a wait; 200 ms if 0.
	Interval time.Duration
}

// A Plane is a management cluster: a control plane without pods
// (lab/controlplane), or a whole one (lab/node).
type Plane interface {
	// Kubeconfig is the path of the administrator's.
	Kubeconfig() string
	RESTConfig() *rest.Config
	// Kubectl and Clusterctl run these as administrator.
	Kubectl(ctx context.Context, args ...string) ([]byte, error)
	Clusterctl(ctx context.Context, variables []string, args ...string) (controlplane.Output, error)
	// AuditLog is the path of the API server's.
	AuditLog() string
	// Err says whether something has ended that should run.
	Err() error
}

// A Site is a management cluster with Cluster API and Ingot.
type Site struct {
	World     *World
	Name      string
	Namespace string
	// Plane is the management cluster. Ingot is the installation on a control plane
	// without pods; nil where Ingot is installed by others (Attach).
	Plane Plane
	Ingot *management.Ingot
	// Release is what clusterctl installed; nil with Attach.
	Release *release.Release
	// Client is an administrator's.
	Client client.WithWatch

	config  Config
	number  int
	dir     string
	program string
	// kubeconfig of the manager; empty: the installation's. keyDir has the keys of the agent
	// API.
	kubeconfig, keyDir string
	manager            *management.Launched // nil: none runs
	starts             int
}

// Start starts a site that ends with the test, and returns when Ingot's manager is
// ready.
func Start(t testing.TB, cfg Config) *Site {
	t.Helper()
	if cfg.World == nil {
		cfg.World = NewWorld(t, WorldConfig{})
	}
	began := time.Now()
	s := newSite(cfg)
	s.build(t)
	s.connect(t)
	if !cfg.NoManager {
		s.StartManager(t)
	}
	t.Logf("site %s ready after %s", s.Name, time.Since(began).Round(time.Second))
	return s
}

// Attach makes a site of a management cluster that runs already. Cluster API and
// Ingot are installed by whoever calls, before or after, with the boot server at
// BootAddress; managers and their flags are not the site's.
func Attach(t testing.TB, cfg Config, plane Plane) *Site {
	t.Helper()
	s := newSite(cfg)
	s.Plane = plane
	check(t, os.MkdirAll(s.dir, 0o700))
	s.connect(t)
	return s
}

// newSite is a site of which nothing runs yet.
func newSite(cfg Config) *Site {
	cfg.Name, cfg.Namespace = cmp.Or(cfg.Name, "a"), cmp.Or(cfg.Namespace, "default")
	cfg.Interval = cmp.Or(cfg.Interval, interval)
	cfg.World.sites++
	s := &Site{
		World: cfg.World, Name: cfg.Name, Namespace: cfg.Namespace, config: cfg,
		number: cfg.World.sites, dir: filepath.Join(cfg.World.dir, cfg.Name),
	}
	s.keyDir = filepath.Join(s.dir, "keys")
	return s
}

// Fork makes a site of a copy of the site's management cluster (StartCopy), with a manager of
// its own that has the same keys. Admission requests go to the manager of s, which must run.
func (s *Site) Fork(t testing.TB, name string, plane *controlplane.ControlPlane) *Site {
	t.Helper()
	cfg := s.config
	cfg.Name, cfg.Namespace = name, "default" // the namespace is there already
	fork := newSite(cfg)
	check(t, os.MkdirAll(fork.dir, 0o700))
	fork.Plane, fork.Ingot, fork.program, fork.keyDir = plane, s.Ingot, s.program, s.keyDir
	config, err := clientcmd.LoadFromFile(s.Ingot.Kubeconfig())
	check(t, err)
	for _, cluster := range config.Clusters {
		cluster.Server = plane.RESTConfig().Host
	}
	fork.kubeconfig = filepath.Join(fork.dir, "manager.kubeconfig")
	check(t, clientcmd.WriteToFile(*config, fork.kubeconfig))
	fork.connect(t)
	fork.Namespace = s.Namespace
	return fork
}

// build makes program, release and management cluster side by side.
func (s *Site) build(t testing.TB) {
	t.Helper()
	check(t, os.MkdirAll(s.dir, 0o700))
	set, err := tools.Open()
	check(t, err)
	s.program = filepath.Join(s.dir, "lab")
	group, ctx := errgroup.WithContext(t.Context())
	group.Go(func() error {
		build := exec.CommandContext(ctx, "go", "build", "-o", s.program, "./cmd/lab")
		build.Dir = set.Root()
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build the manager: %w\n%s", err, out)
		}
		return nil
	})
	var plane *controlplane.ControlPlane
	group.Go(func() (err error) {
		plane, err = s.install(ctx, set.Root())
		return err
	})
	err = group.Wait()
	if plane != nil {
		t.Cleanup(plane.Stop)
	}
	check(t, err)
	s.Plane = plane
}

// install does what an operator does: clusterctl init --infrastructure ingot, from
// a repository with this source tree's release.
func (s *Site) install(ctx context.Context, root string) (*controlplane.ControlPlane, error) {
	var err error
	s.Release, err = release.Write(ctx, release.Options{Root: root, Version: Version, Out: filepath.Join(s.dir, "release"), NoImages: true})
	if err != nil {
		return nil, err
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		Dir: filepath.Join(s.dir, "plane"), Audit: true, AuditBodies: []string{infrastructureGroup}, FeatureGates: s.config.FeatureGates,
	})
	if err != nil {
		return nil, err
	}
	if err := plane.InstallClusterAPI(ctx, clusterapi.Entry{Name: "ingot", Kind: "InfrastructureProvider", URL: s.Release.Components}); err != nil {
		return plane, err
	}
	s.Ingot, err = management.Install(ctx, plane, management.Options{Dir: filepath.Join(s.dir, "ingot")})
	return plane, err
}

// connect makes the administrator's client.
func (s *Site) connect(t testing.TB) {
	t.Helper()
	ctrllog.SetLogger(logr.Discard())
	scheme, err := app.Scheme()
	check(t, err)
	check(t, bootstrapv1.AddToScheme(scheme))
	check(t, controlplanev1.AddToScheme(scheme))
	config := s.Plane.RESTConfig()
	config.QPS, config.Burst = -1, -1 // the tests do what many people do
	s.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	check(t, err)
	if s.Namespace != "default" {
		s.Kubectl(t, "create", "namespace", s.Namespace)
	}
}

// In is the site as seen from another namespace, which is made if it is missing:
// its hosts, and its clusters, are others.
func (s *Site) In(t testing.TB, namespace string) *Site {
	t.Helper()
	check(t, client.IgnoreAlreadyExists(s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})))
	other := *s
	other.Namespace = namespace
	return &other
}

// Kubeconfig is the path of the administrator's kubeconfig.
func (s *Site) Kubeconfig() string { return s.Plane.Kubeconfig() }

// Kubectl runs kubectl as administrator and returns its standard output.
func (s *Site) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := s.Plane.Kubectl(t.Context(), args...)
	check(t, err)
	return string(out)
}

// Apply applies a manifest, which is kept among the logs.
func (s *Site) Apply(t testing.TB, manifest []byte) {
	t.Helper()
	check(t, s.TryApply(t, manifest))
}

// TryApply is Apply for what may be refused.
func (s *Site) TryApply(t testing.TB, manifest []byte) error {
	t.Helper()
	file, err := os.CreateTemp(s.dir, "apply-*.yaml")
	check(t, err)
	_, err = file.Write(manifest)
	check(t, err)
	check(t, file.Close())
	_, err = s.Plane.Kubectl(t.Context(), "apply", "--filename", file.Name())
	return err
}

// Clusterctl runs clusterctl with the release's repository. variables are those
// of templates; nil: none.
func (s *Site) Clusterctl(t testing.TB, variables map[string]string, args ...string) controlplane.Output {
	t.Helper()
	out, err := s.TryClusterctl(t.Context(), variables, args...)
	check(t, err)
	return out
}

// TryClusterctl is Clusterctl for what may fail; the error has what clusterctl
// said.
func (s *Site) TryClusterctl(ctx context.Context, variables map[string]string, args ...string) (controlplane.Output, error) {
	var environment []string
	for name, value := range variables {
		environment = append(environment, name+"="+value)
	}
	return s.Plane.Clusterctl(ctx, environment, args...)
}

// keys makes the keys of the agent API, once.
func (s *Site) keys(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(s.keyDir); err != nil {
		check(t, token.Generate(s.keyDir))
	}
	return s.keyDir
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/needs"
)

// A Plane is a management cluster with Ingot's manifests and the definitions of
// Cluster API, and the manager's program. Sites of several tests share it, one
// after the other.
type Plane struct {
	// Client is an administrator's.
	Client client.WithWatch

	plane *controlplane.ControlPlane
	ingot *management.Ingot
	// program is "lab", of which "lab manager" is the manager on the lab's network.
	program string
	dir     string
	sites   int
}

// PlaneOptions describe a management cluster; the zero value is useful.
type PlaneOptions struct {
	// Audit keeps a log of all requests to the API server (AuditLog).
	Audit bool
	// AdmissionPlugins of the API server that are on in addition to its defaults.
	AdmissionPlugins []string
}

// NewPlane starts a management cluster that ends with the test.
func NewPlane(t *testing.T) *Plane {
	t.Helper()
	return NewPlaneWith(t, PlaneOptions{})
}

// NewPlaneWith is NewPlane with options.
func NewPlaneWith(t *testing.T, o PlaneOptions) *Plane {
	t.Helper()
	// Unix sockets need short paths: t.TempDir has the test's name in it.
	dir, err := os.MkdirTemp("", "line-")
	check(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		t.Logf("logs are kept in %s", dir)
	})
	needs.ControlPlane(t)
	p := &Plane{dir: dir, program: filepath.Join(dir, "lab")}
	began := time.Now()
	set, err := tools.Open()
	check(t, err)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.program, "./cmd/lab")
	build.Dir = set.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, out)
	}
	p.plane, err = controlplane.Start(t.Context(), controlplane.Options{Dir: filepath.Join(dir, "plane"), Audit: o.Audit, AdmissionPlugins: o.AdmissionPlugins})
	check(t, err)
	t.Cleanup(p.plane.Stop)
	_, err = p.plane.Kubectl(t.Context(), "apply", "--server-side", "--filename", envtest.ClusterAPICRDs(t))
	check(t, err)
	p.ingot, err = management.Install(t.Context(), p.plane, management.Options{
		Dir: filepath.Join(dir, "ingot"), ConfigDir: filepath.Join(set.Root(), "config", "default"), NoCertManager: true,
	})
	check(t, err)
	scheme, err := app.Scheme()
	check(t, err)
	config := p.plane.RESTConfig()
	ctrllog.SetLogger(logr.Discard())
	config.QPS, config.Burst = -1, -1 // the tests do what many people do
	p.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	check(t, err)
	t.Logf("management cluster ready after %s", time.Since(began).Round(time.Second))
	return p
}

// apiServer is where the API server is, and how it is trusted.
func (p *Plane) apiServer(t *testing.T) (*url.URL, *rest.Config) {
	t.Helper()
	config := p.plane.RESTConfig()
	target, err := url.Parse(config.Host)
	check(t, err)
	return target, config
}

// AuditLog is the path of the log of all requests, where there is one.
func (p *Plane) AuditLog() string { return p.plane.AuditLog() }

// Kubectl runs kubectl as administrator.
func (p *Plane) Kubectl(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := p.plane.Kubectl(t.Context(), args...)
	check(t, err)
	return out
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

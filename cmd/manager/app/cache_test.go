// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/envtest"
)

// The cache contains only the Secrets and ConfigMaps of BMCs and, with --namespace, only objects of that
// namespace and cluster-scoped networks.
func TestCache(t *testing.T) {
	config := envtest.Start(t, envtest.IngotCRDs(t))
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	in := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	bmcs := map[string]string{infrav1.BMCCredentialsLabel: ""}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		&corev1.Secret{ObjectMeta: in("default", "bmc", bmcs)},
		&corev1.Secret{ObjectMeta: in("default", "bootstrap", nil)},
		&corev1.Secret{ObjectMeta: in("other", "bmc-elsewhere", bmcs)},
		&corev1.ConfigMap{ObjectMeta: in("default", "ca", bmcs)},
		&corev1.ConfigMap{ObjectMeta: in("default", "settings", nil)},
		&infrav1.IngotHardware{ObjectMeta: in("default", "host", nil)},
		&infrav1.IngotHardware{ObjectMeta: in("other", "host-elsewhere", nil)},
		&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{Subnet: "192.0.2.0/24", Range: infrav1.AddressRange{Start: "192.0.2.10", End: "192.0.2.20"}}},
	} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		namespace string
		want      map[string][]string
	}{
		"all namespaces": {"", map[string][]string{"Secret": {"bmc", "bmc-elsewhere"}, "ConfigMap": {"ca"},
			"IngotHardware": {"host", "host-elsewhere"}, "IngotNetwork": {"net"}}},
		"one namespace": {"default", map[string][]string{"Secret": {"bmc"}, "ConfigMap": {"ca"},
			"IngotHardware": {"host"}, "IngotNetwork": {"net"}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := DefaultOptions()
			o.Namespace = tc.namespace
			options := cacheOptions(o)
			options.Scheme = scheme
			c, err := cache.New(config, options)
			if err != nil {
				t.Fatal(err)
			}
			ctx := start(t, c)
			got := map[string][]string{}
			for kind, list := range map[string]client.ObjectList{"Secret": &corev1.SecretList{}, "ConfigMap": &corev1.ConfigMapList{},
				"IngotHardware": &infrav1.IngotHardwareList{}, "IngotNetwork": &infrav1.IngotNetworkList{}} {
				if err := c.List(ctx, list); err != nil {
					t.Fatalf("%s: %v", kind, err)
				}
				_ = meta.EachListItem(list, func(item runtime.Object) error {
					got[kind] = append(got[kind], item.(client.Object).GetName())
					return nil
				})
			}
			less := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(tc.want, got, less); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}

// start runs the cache until the end of the test.
func start(t *testing.T, c cache.Cache) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("cache: %v", err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	return ctx
}

// cut is a connection to an API server that can become unavailable.
type cut struct {
	http.RoundTripper
	away *atomic.Bool
}

func (c cut) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.away.Load() {
		return nil, errors.New("the API server is unavailable")
	}
	return c.RoundTripper.RoundTrip(r)
}

// A boot never waits for the API server: the cache contains everything before the first boot, and keeps it
// when the API server becomes unavailable.
func TestBootServerCache(t *testing.T) {
	config := rest.CopyConfig(envtest.Start(t, envtest.IngotCRDs(t)))
	away := &atomic.Bool{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return cut{next, away} })
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for name, roles := range map[string][]string{"alone": {RoleBoot}, "with the controllers": {RoleControllers, RoleBoot}} {
		t.Run(name, func(t *testing.T) {
			away.Store(false)
			defer away.Store(false)
			o := DefaultOptions()
			o.Roles = roles
			options := cacheOptions(o)
			options.Scheme = scheme
			c, err := cache.New(config, options)
			if err != nil {
				t.Fatal(err)
			}
			if err := setupCache(t.Context(), c, o); err != nil {
				t.Fatal(err)
			}
			ctx := start(t, c)
			away.Store(true)
			ctx, stop := context.WithTimeout(ctx, 10*time.Second) // a hang becomes a failure
			defer stop()
			for _, object := range []client.Object{&infrav1.IngotHost{}, &infrav1.IngotHardware{}, &infrav1.IngotNetwork{}} {
				if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "none"}, object); !apierrors.IsNotFound(err) {
					t.Errorf("%T: %v", object, err)
				}
			}
		})
	}
}

// The cache drops the managed fields of Cluster API objects, but not of Ingot's, which the migration reads.
func TestCacheDropsManagedFields(t *testing.T) {
	for object, want := range map[client.Object]int{&clusterv1.Machine{}: 0, &clusterv1.Cluster{}: 0, &infrav1.IngotHost{}: 1, &corev1.Secret{}: 1} {
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		kept, err := cacheOptions(DefaultOptions()).DefaultTransform(object)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(kept.(client.Object).GetManagedFields()); got != want {
			t.Errorf("%T keeps %d, want %d", object, got, want)
		}
	}
}

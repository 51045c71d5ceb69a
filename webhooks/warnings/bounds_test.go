// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// largest is Ingot's largest supported inventory.
const largest = 5000

// bigCache behaves like the manager's cache: it filters by label, applies limits, and copies unless
// told otherwise. given counts the returned objects, copied the copies.
type bigCache struct {
	client.Reader
	hosts         []v1beta2.IngotHost
	hardware      []v1beta2.IngotHardware
	given, copied int
}

func newBigCache() *bigCache {
	c := &bigCache{}
	for i := range largest {
		name := fmt.Sprintf("h%04d", i)
		c.hosts = append(c.hosts, *host(name, "tier", "gold", v1beta2.RackLabel, fmt.Sprint(i%100)))
		c.hardware = append(c.hardware, *hardware(name, "amd64", 64, 256, 2000))
	}
	return c
}

func (c *bigCache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	copying := options.UnsafeDisableDeepCopy == nil || !*options.UnsafeDisableDeepCopy
	switch out := list.(type) {
	case *v1beta2.IngotHostList:
		for i := range c.hosts {
			if options.Limit > 0 && int64(len(out.Items)) >= options.Limit {
				break
			}
			if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(c.hosts[i].Labels)) {
				continue
			}
			out.Items = append(out.Items, c.hosts[i])
		}
		c.given += len(out.Items)
		if copying {
			c.copied += len(out.Items)
		}
	case *v1beta2.IngotHardwareList:
		out.Items = append(out.Items, c.hardware...)
		if copying {
			c.copied += len(out.Items)
		}
	}
	return nil
}

func (c *bigCache) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if network, ok := object.(*v1beta2.IngotNetwork); ok {
		network.Spec.Range = v1beta2.AddressRange{Start: "10.0.0.1", End: "10.0.0.100"}
	}
	return nil
}

// The checks read few hosts of a large inventory and copy none.
func TestChecksReadFewHosts(t *testing.T) {
	gold := v1beta2.IngotMachineSpec{HostSelector: labelled(map[string]string{"tier": "gold"})}
	cluster := v1beta2.IngotClusterSpec{HostSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}, FailureDomainLabel: "example.com/row"}
	tests := map[string]struct {
		do   func(warnings.Checker) []string
		most int
	}{
		"template":         {func(c warnings.Checker) []string { return c.Machine(t.Context(), "ns", field.NewPath("spec"), gold) }, 2},
		"cluster":          {func(c warnings.Checker) []string { return c.Cluster(t.Context(), "ns", field.NewPath("spec"), cluster) }, 3},
		"host, unlabelled": {func(c warnings.Checker) []string { return c.MissingDomainLabels(t.Context(), nil, host("new")) }, 1},
		"host, labelled": {func(c warnings.Checker) []string {
			return c.MissingDomainLabels(t.Context(), nil, host("new", v1beta2.RackLabel, "1"))
		}, 0},
		"host, network": {func(c warnings.Checker) []string { return c.FullNetwork(t.Context(), host("new")) }, 101},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cache := newBigCache()
			tt.do(warnings.Checker{Reader: cache})
			if cache.given > tt.most || cache.copied > 0 {
				t.Errorf("%d hosts were read and %d copied, want at most %d and none", cache.given, cache.copied, tt.most)
			}
		})
	}
}

// stuckCache blocks until the context ends.
type stuckCache struct{ client.Reader }

func (stuckCache) List(ctx context.Context, _ client.ObjectList, _ ...client.ListOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuckCache) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

// A cache that is still being filled delays no request for long and causes no warnings.
func TestStuckCache(t *testing.T) {
	c := warnings.Checker{Reader: stuckCache{}}
	spec := v1beta2.IngotMachineSpec{HostSelector: labelled(map[string]string{"a": "b"})}
	// A failure ends with the deadline of the test binary.
	check(t, nil, c.Machine(context.WithoutCancel(t.Context()), "ns", field.NewPath("spec"), spec))
	check(t, nil, c.FullNetwork(context.WithoutCancel(t.Context()), host("h")))
	hinted := host("h")
	hinted.Spec.RootDeviceHints = &v1beta2.RootDeviceHints{SerialNumber: "S"}
	check(t, nil, c.RootDisk(context.WithoutCancel(t.Context()), nil, hinted))
}

// BenchmarkChecker measures the most expensive checks: hardware that no host has.
func BenchmarkChecker(b *testing.B) {
	for name, spec := range map[string]v1beta2.IngotMachineSpec{
		"cores":      {HostSelector: &v1beta2.HostSelector{Minimum: &v1beta2.HardwareMinimum{Cores: new(int32(1000))}}},
		"hints":      {RootDeviceHints: &v1beta2.RootDeviceHints{SerialNumber: "S", Rotational: new(true)}},
		"interfaces": asking(v1beta2.NICSelector{Driver: "igc"}, v1beta2.NICSelector{Driver: "mlx5_cor"}),
	} {
		b.Run(name, func(b *testing.B) {
			c := warnings.Checker{Reader: newBigCache()}
			for b.Loop() {
				if got := c.Machine(b.Context(), "ns", field.NewPath("spec"), spec); len(got) == 0 {
					b.Fatal("no warning")
				}
			}
		})
	}
}

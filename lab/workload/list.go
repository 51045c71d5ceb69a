// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Serving reports whether an API server answers at an endpoint.
func (p *Plane) Serving(at netip.AddrPort) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[at.String()]
	return e != nil && e.cluster != nil && e.cluster.serves()
}

// Nodes returns the nodes of the cluster at an endpoint, even if it does not serve; none before
// kubeadm init.
func (p *Plane) Nodes(ctx context.Context, at netip.AddrPort) ([]corev1.Node, error) {
	nodes := &corev1.NodeList{}
	err := p.List(ctx, at, nodes)
	return nodes.Items, err
}

// List lists objects of the cluster at an endpoint without its API server.
func (p *Plane) List(ctx context.Context, at netip.AddrPort, list client.ObjectList, opts ...client.ListOption) error {
	p.mu.Lock()
	e := p.endpoints[at.String()]
	if e == nil {
		p.mu.Unlock()
		return fmt.Errorf("list %T: %s is not reserved", list, at)
	}
	c := e.cluster
	p.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.list(ctx, list, opts...)
}

// list lists typed objects, including those that were patched: they are stored as unstructured
// objects.
func (c *cluster) list(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	kind, err := apiutil.GVKForObject(list, c.scheme)
	if err != nil {
		return fmt.Errorf("list %T: %w", list, err)
	}
	untyped := &unstructured.UnstructuredList{}
	untyped.SetGroupVersionKind(kind)
	if err := c.client.List(ctx, untyped, opts...); err != nil {
		return fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.UnstructuredContent(), list); err != nil {
		return fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	return nil
}

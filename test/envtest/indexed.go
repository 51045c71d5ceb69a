// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Indexed is a client that reads from the API server, not from a cache, and yet
// answers lists by the indexes of a cache: a test that steps a reconciler sees at
// once what it wrote. It implements client.FieldIndexer.
type Indexed struct {
	client.Client
	indexers map[string]client.IndexerFunc
}

// NewIndexed makes a client without indexes.
func NewIndexed(t testing.TB, cfg *rest.Config, scheme *runtime.Scheme) *Indexed {
	t.Helper()
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatalf("envtest: %v", err)
	}
	return &Indexed{Client: c, indexers: map[string]client.IndexerFunc{}}
}

// IndexField adds an index, as a cache would.
func (c *Indexed) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	c.indexers[fmt.Sprintf("%T/%s", obj, field)] = values
	return nil
}

// List answers from the API server, and filters by the index that is asked for.
func (c *Indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	selector := options.FieldSelector
	options.FieldSelector = nil
	if err := c.Client.List(ctx, list, options); err != nil || selector == nil {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, wanted := range selector.Requirements() {
		items = slices.DeleteFunc(items, func(item runtime.Object) bool {
			values, known := c.indexers[fmt.Sprintf("%T/%s", item, wanted.Field)]
			if !known {
				err = fmt.Errorf("no index %s of %T", wanted.Field, item)
				return false
			}
			return !slices.Contains(values(item.(client.Object)), wanted.Value)
		})
	}
	if err != nil {
		return err
	}
	return meta.SetList(list, items)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
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

// List answers from the API server, and filters by the index that is asked for; a limit is
// that of what is left, as it is a cache's.
func (c *Indexed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	selector, limit := options.FieldSelector, options.Limit
	options.FieldSelector, options.Limit = nil, 0
	if err := c.Client.List(ctx, list, options); err != nil || selector == nil && limit == 0 {
		return err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	for _, wanted := range requirements(selector) {
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
	if limit > 0 {
		items = items[:min(len(items), int(limit))]
	}
	return meta.SetList(list, items)
}

func requirements(selector fields.Selector) fields.Requirements {
	if selector == nil {
		return nil
	}
	return selector.Requirements()
}

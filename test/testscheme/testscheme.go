// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package testscheme

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Scheme has the kinds of Kubernetes, of Cluster API's core and of Ingot, in the
// versions that are stored, and what a test adds.
func Scheme(t testing.TB, more ...func(*runtime.Scheme) error) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range append([]func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme}, more...) {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

// Indexer is a client.FieldIndexer that adds the indexes of a manager to a fake client.
//
//	err := index.Setup(ctx, testscheme.Indexer{ClientBuilder: builder})
type Indexer struct{ *fake.ClientBuilder }

// IndexField implements client.FieldIndexer.
func (i Indexer) IndexField(_ context.Context, object client.Object, name string, values client.IndexerFunc) error {
	i.WithIndex(object, name, values)
	return nil
}

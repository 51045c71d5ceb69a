// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

func TestNetworks(t *testing.T) {
	network := func(name, subnet string) client.Object {
		return &infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.IngotNetworkSpec{Subnet: subnet}}
	}
	c := requestsWorld().WithObjects(network("a", "10.10.0.0/24"), network("b", "10.20.0.0/24")).Build()
	got, err := index.Networks(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]infrav1.IngotNetworkSpec{"a": {Subnet: "10.10.0.0/24"}, "b": {Subnet: "10.20.0.0/24"}}, got); diff != "" {
		t.Errorf("networks (-want +got):\n%s", diff)
	}
	away := errors.New("the cache is away")
	broken := interceptor.NewClient(c, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return away }})
	if _, err := index.Networks(t.Context(), broken); !errors.Is(err, away) {
		t.Errorf("%v, want %v", err, away)
	}
}

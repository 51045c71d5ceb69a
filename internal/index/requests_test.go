// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package index_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
)

// requestsWorld has hosts a and b of namespace n, and a of namespace other; a of n and
// of other are on network net.
func requestsWorld() *fake.ClientBuilder {
	scheme := runtime.NewScheme()
	utilruntime.Must(infrav1.AddToScheme(scheme))
	host := func(namespace, name, network string) client.Object {
		return &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: infrav1.IngotHostSpec{NetworkRef: infrav1.NetworkReference{Name: network}}}
	}
	return fake.NewClientBuilder().WithScheme(scheme).
		WithObjects(host("n", "a", "net"), host("n", "b", "net2"), host("other", "a", "net")).
		WithIndex(&infrav1.IngotHost{}, index.HostByNetwork, func(o client.Object) []string {
			return []string{o.(*infrav1.IngotHost).Spec.NetworkRef.Name}
		})
}

func TestRequests(t *testing.T) {
	onNet := client.MatchingFields{index.HostByNetwork: "net"}
	called := func(name string) func(*infrav1.IngotHost) bool {
		return func(h *infrav1.IngotHost) bool { return h.Name == name }
	}
	all := func(*infrav1.IngotHost) bool { return true }
	for name, tc := range map[string]struct {
		which  []client.ListOption
		wanted func(*infrav1.IngotHost) bool
		want   []string
	}{
		"of everywhere":                {nil, all, []string{"n/a", "n/b", "other/a"}},
		"of a namespace":               {[]client.ListOption{client.InNamespace("n")}, all, []string{"n/a", "n/b"}},
		"by an index":                  {[]client.ListOption{onNet}, all, []string{"n/a", "other/a"}},
		"by both":                      {[]client.ListOption{client.InNamespace("n"), onNet}, all, []string{"n/a"}},
		"those that are wanted":        {[]client.ListOption{client.InNamespace("n")}, called("b"), []string{"n/b"}},
		"wanted, and not by the index": {[]client.ListOption{onNet}, called("b"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := requestsWorld().Build()
			if diff := cmp.Diff(tc.want, names(index.RequestsIf(t.Context(), c, &infrav1.IngotHostList{}, tc.wanted, tc.which...))); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"n/a", "n/b"}, names(index.Requests(t.Context(), requestsWorld().Build(), &infrav1.IngotHostList{}, client.InNamespace("n")))); diff != "" {
		t.Errorf("requests for all (-want +got):\n%s", diff)
	}
}

func names(requests []reconcile.Request) []string {
	var out []string
	for _, request := range requests {
		out = append(out, request.String())
	}
	return out
}

// TestRequestsThatFail sees that what cannot be listed is logged, with what was asked.
func TestRequestsThatFail(t *testing.T) {
	broken := requestsWorld().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("cache is away")
		},
	}).Build()
	inN := client.InNamespace("n")
	for name, tc := range map[string]struct {
		ask  func(context.Context) []reconcile.Request
		want []string
	}{
		"a list that fails": {
			func(ctx context.Context) []reconcile.Request {
				return index.Requests(ctx, broken, &infrav1.IngotHostList{}, inN)
			},
			[]string{"cache is away", "IngotHostList", `"by"="[n]"`},
		},
		"another kind than is wanted": {
			func(ctx context.Context) []reconcile.Request {
				return index.RequestsIf(ctx, requestsWorld().Build(), &infrav1.IngotHostList{}, func(*infrav1.IngotMachine) bool { return true }, inN)
			},
			[]string{"unexpected item *v1beta2.IngotHost"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			ctx := ctrl.LoggerInto(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
			if got := tc.ask(ctx); got != nil {
				t.Errorf("requests: %v", got)
			}
			for _, want := range tc.want {
				if len(lines) != 1 || !strings.Contains(lines[0], want) {
					t.Errorf("logged %q, want one line with %q", lines, want)
				}
			}
		})
	}
}

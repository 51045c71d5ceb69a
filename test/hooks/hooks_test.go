// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"encoding/json"
	"strings"
	"testing"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/lifecycle"
	"github.com/ingot-metal/ingot/test/hooks"
	"github.com/ingot-metal/ingot/test/needs"
)

// A Cluster of the class ingot-runtime is held for want of an image and then of hosts,
// is built with what the catalogue has and with its hosts promised, and its deletion is
// held while it is retained; another one's upgrade is held for want of an image.
func TestRuntimeExtension(t *testing.T) {
	needs.ClusterAPI(t)
	s := hooks.Start(t)
	cluster, templates := s.Built(t)
	for _, template := range templates {
		spec := template.Spec.Template.Spec
		if spec.ImageRef == nil || spec.ImageRef.Name != hooks.Image || spec.HostSelector == nil || spec.HostSelector.Architecture != "amd64" {
			t.Errorf("%s: %+v", template.Name, spec)
		}
	}
	promised := &infrav1.IngotReservation{}
	must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), promised))
	if len(promised.Spec.Groups) != 2 || promised.Spec.State != infrav1.ReservationReserved {
		t.Errorf("promised: %+v", promised.Spec)
	}
	s.Retained(t, cluster)
	s.Upgraded(t, "v1.36.1", "v1.36.2")
	checkCalls(t, s.Calls())
}

// checkCalls looks at what Cluster API asked and what it was answered.
func checkCalls(t *testing.T, calls []hooks.Call) {
	t.Helper()
	seen := map[string]int{}
	for _, call := range calls {
		path := strings.TrimPrefix(strings.TrimPrefix(call.Path, "/in-place"), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/")
		hook, _, _ := strings.Cut(path, "/")
		seen[hook]++
		var answer struct {
			Status            runtimehooksv1.ResponseStatus `json:"status"`
			RetryAfterSeconds int32                         `json:"retryAfterSeconds"`
		}
		must(t, json.Unmarshal(call.Answer, &answer))
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds != 0 && answer.RetryAfterSeconds != lifecycle.RetryAfterSeconds {
			t.Errorf("%s: %s", hook, call.Answer)
		}
	}
	for _, hook := range []string{"discovery", "discovervariables", "beforeclustercreate", "generatepatches", "validatetopology", "beforeclusterdelete", "generateupgradeplan", "beforeclusterupgrade"} {
		if seen[hook] == 0 {
			t.Errorf("%s was never called: %v", hook, seen)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

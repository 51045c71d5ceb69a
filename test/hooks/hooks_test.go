// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/runtimehooks/lifecycle"
	"github.com/ingot-metal/ingot/test/hooks"
)

// A Cluster of the class ingot-runtime is held for want of an image and then of hosts,
// is built with what the catalogue has, and its deletion is held while it is retained.
func TestRuntimeExtension(t *testing.T) {
	if os.Getenv("INGOT_CAPI") == "" {
		t.Skip("set INGOT_CAPI=1 to run Cluster API's managers, as make test does")
	}
	s := hooks.Start(t)
	s.Class(t, "ingot-runtime")
	cluster := s.Cluster(t, "c1", nil)
	held := func(words ...string) func(context.Context) string {
		return func(ctx context.Context) string {
			status, message := s.TopologyReconciled(ctx, cluster)
			for _, word := range words {
				if status != metav1.ConditionFalse || !strings.Contains(message, word) {
					return fmt.Sprintf("%s %q does not say %q", status, message, word)
				}
			}
			return ""
		}
	}
	s.Await(t, "the hold for want of an image", held("no IngotImage for Kubernetes v1.36.1 on amd64"))
	must(t, s.Client.Create(t.Context(), &infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "debian-v1.36.1"}, Spec: infrav1.IngotImageSpec{
		KubernetesVersion: "v1.36.1", Architecture: "amd64", OS: "debian-12", URL: "https://images.example/os.raw.zst", Checksum: "sha256:" + strings.Repeat("ab", 32),
	}}))
	s.Host(t, "h1", nil)
	s.Await(t, "the hold for want of hosts", held("2 hosts are missing", "machine deployment md-0 lacks 2 of 2 hosts"))
	templates := &infrav1.IngotMachineTemplateList{}
	owned := client.MatchingLabels{clusterv1.ClusterNameLabel: "c1"}
	must(t, s.Client.List(t.Context(), templates, client.InNamespace(hooks.Namespace), owned))
	if len(templates.Items) > 0 {
		t.Errorf("%d templates were made before the Cluster was let go", len(templates.Items))
	}
	s.Host(t, "h2", nil)
	s.Host(t, "h3", nil)
	s.Await(t, "the templates of both groups", func(ctx context.Context) string {
		if err := s.Client.List(ctx, templates, client.InNamespace(hooks.Namespace), owned); err != nil {
			return err.Error()
		}
		_, message := s.TopologyReconciled(ctx, cluster)
		if len(templates.Items) != 2 {
			return fmt.Sprintf("%d templates: %s", len(templates.Items), message)
		}
		return ""
	})
	for _, template := range templates.Items {
		spec := template.Spec.Template.Spec
		if spec.ImageRef == nil || spec.ImageRef.Name != "debian-v1.36.1" || spec.HostSelector == nil || spec.HostSelector.Arch != "amd64" {
			t.Errorf("%s: %+v", template.Name, spec)
		}
	}
	promised := &infrav1.IngotReservation{}
	must(t, s.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), promised))
	if len(promised.Spec.Groups) != 2 || promised.Spec.State != infrav1.ReservationPromised {
		t.Errorf("promised: %+v", promised.Spec)
	}
	retain(t, s, cluster)
	checkCalls(t, s.Calls())
}

// retain holds the deletion until the annotation goes.
func retain(t *testing.T, s *hooks.Site, cluster *clusterv1.Cluster) {
	t.Helper()
	annotate := func(value *string) {
		patch := map[string]any{"metadata": map[string]any{"annotations": map[string]any{infrav1.RetainAnnotation: value}}}
		data, err := json.Marshal(patch)
		must(t, err)
		must(t, s.Client.Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json", data)))
	}
	because := "a person said so"
	annotate(&because)
	must(t, s.Client.Delete(t.Context(), cluster))
	s.Await(t, "the hold of the deletion", func(context.Context) string {
		for _, call := range s.Calls() {
			if strings.Contains(call.Path, "beforeclusterdelete") && strings.Contains(string(call.Answer), infrav1.RetainAnnotation) {
				return ""
			}
		}
		return "the hook was not called"
	})
	infra := &infrav1.IngotClusterList{}
	must(t, s.Client.List(t.Context(), infra, client.InNamespace(hooks.Namespace)))
	if len(infra.Items) != 1 || !infra.Items[0].DeletionTimestamp.IsZero() {
		t.Errorf("the infrastructure of a retained Cluster: %+v", infra.Items)
	}
	annotate(nil)
	s.Await(t, "the end of the Cluster", func(ctx context.Context) string {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), &clusterv1.Cluster{})
		if errors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("it is there (%v)", err)
	})
}

// checkCalls looks at what Cluster API asked and what it was answered.
func checkCalls(t *testing.T, calls []hooks.Call) {
	t.Helper()
	seen := map[string]int{}
	for _, call := range calls {
		hook := strings.Split(strings.TrimPrefix(strings.TrimPrefix(call.Path, "/in-place"), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/"), "/")[0]
		seen[hook]++
		var answer struct {
			Status            runtimehooksv1.ResponseStatus `json:"status"`
			RetryAfterSeconds int32                         `json:"retryAfterSeconds"`
			Message           string                        `json:"message"`
		}
		must(t, json.Unmarshal(call.Answer, &answer))
		if answer.Status != runtimehooksv1.ResponseStatusSuccess || answer.RetryAfterSeconds != 0 && answer.RetryAfterSeconds != lifecycle.RetryAfterSeconds {
			t.Errorf("%s: %s", hook, call.Answer)
		}
	}
	for _, hook := range []string{"discovery", "discovervariables", "beforeclustercreate", "generatepatches", "validatetopology", "beforeclusterdelete"} {
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

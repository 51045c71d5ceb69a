// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/test/hooks"
)

// tellHooks is a Cluster that is held, let go and built, and held at its end.
func tellHooks(s *story) {
	call := func(hook string, retry float64) {
		request := map[string]any{"apiVersion": hookVersion, "kind": hook + "Request"}
		if strings.Contains(hook, "Cluster") {
			request["cluster"] = map[string]any{"spec": map[string]any{"paused": false}}
		}
		s.run.Hooks = append(s.run.Hooks, HookCall{Hook: hook, Request: request, Answer: map[string]any{
			"apiVersion": hookVersion, "kind": hook + "Response", "status": hookSuccess, retryField: retry,
		}})
	}
	call("Discovery", 0)
	call("BeforeClusterCreate", mayHoldFor)
	call("BeforeClusterCreate", 0)
	call("GeneratePatches", 0)
	call("BeforeClusterDelete", mayHoldFor)
	call("BeforeClusterDelete", 0)
	for _, name := range []string{"ingot", "ingot-in-place"} {
		o := object(extensionAPI+"/v1beta2", "ExtensionConfig", "", name)
		conditioned("Discovered", "True", "")(o)
		set(o, []any{map[string]any{"name": "a." + name, "requestHook": map[string]any{"hook": "BeforeClusterCreate"}, "failurePolicy": "Fail", "timeoutSeconds": int64(10)}}, "status", "handlers")
		s.run.Extensions = append(s.run.Extensions, *o)
	}
}

// hooks records what a real Cluster API asks the extension, from a Cluster that waits
// for hosts to the end of one that was to be retained.
func (r *recorder) hooks(t *testing.T) {
	t.Helper()
	s := hooks.Start(t)
	cluster, _ := s.Built(t)
	s.Retained(t, cluster)
	for _, call := range s.Calls() {
		out := HookCall{Method: call.Method, Path: call.Path, Code: call.Code, Took: call.Took, TLS: true}
		check(t, json.Unmarshal(call.Request, &out.Request))
		check(t, json.Unmarshal(call.Answer, &out.Answer))
		out.Hook = strings.TrimSuffix(out.Request["kind"].(string), "Request")
		out.Name = out.Hook
		r.run.Hooks = append(r.run.Hooks, out)
	}
	configs := &runtimev1.ExtensionConfigList{}
	check(t, s.Client.List(t.Context(), configs, client.InNamespace("")))
	for i := range configs.Items {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&configs.Items[i])
		check(t, err)
		r.run.Extensions = append(r.run.Extensions, unstructured.Unstructured{Object: object})
	}
}

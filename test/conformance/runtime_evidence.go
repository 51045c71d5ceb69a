// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RuntimeExtension is the second provider: its release, and what its server answers.
type RuntimeExtension struct {
	FurtherProvider
	// Calls that were made to the server, in their order.
	Calls []HookCall
}

// A HookCall is a call of a hook, and its answer.
type HookCall struct {
	// Name of what was tried; a second try of the same has the same.
	Name string
	// Hook and Kind that were called: BeforeClusterCreate; empty Hook: none of ours.
	Hook, Method, Path string
	// Request that was sent; of very large ones, nothing.
	Request map[string]any
	// Code, and the answer if it was JSON.
	Code   int
	Answer map[string]any
	Took   time.Duration
	// TLS says that the answer came over a connection whose certificate was verified.
	TLS bool
	// Wrote: objects are not as before; Promises counts IngotReservations after it.
	Wrote    bool
	Promises int
}

// What was tried.
const (
	callDiscovery        = "discovery"
	callInPlaceDiscovery = "discovery of in-place hooks"
	callVariables        = "variables"
	callPatches          = "patches"
	callValidation       = "validation"
	callHeldCreate       = "a Cluster without hosts"
	callGrantedCreate    = "a Cluster with hosts"
	callForeignCreate    = "another provider's Cluster"
	callInitialized      = "a control plane that answers"
	callHeldUpgrade      = "an upgrade by a version without image"
	callHeldControlPlane = "a control plane's step without image"
	callHeldWorkers      = "workers' step without image"
	callStepOne          = "the control plane at its first step"
	callStepTwo          = "the control plane at its second step"
	callWorkersUpgraded  = "workers that are upgraded"
	callUpgraded         = "a Cluster that is upgraded"
	callRetained         = "a Cluster to be retained"
	callReleased         = "a Cluster not to be retained"
	callPlan             = "an upgrade plan"
	callCanUpdate        = "a machine that can be updated"
	callGarbage          = "garbage"
	callOversize         = "an oversize body"
	callSecret           = "a secret of another form"
	callWrongKind        = "another kind"
	callGet              = "GET"
)

// secretMark is in requests that fail, and never in an answer.
const secretMark = "hunter2-secret"

const (
	hookGroup    = "hooks.runtime.cluster.x-k8s.io"
	hookVersion  = hookGroup + "/v1alpha1"
	mayHoldFor   = 15 // seconds (R14)
	maxAnswer    = 10 * time.Second
	maxMessage   = 1024
	hookSuccess  = "Success"
	hookFailure  = "Failure"
	retryField   = "retryAfterSeconds"
	extensionAPI = "runtime.cluster.x-k8s.io"
)

// lifecycleHooks are those that are about a Cluster's life.
var lifecycleHooks = []string{
	"BeforeClusterCreate", "AfterControlPlaneInitialized", "BeforeClusterUpgrade", "BeforeControlPlaneUpgrade", "AfterControlPlaneUpgrade",
	"BeforeWorkersUpgrade", "AfterWorkersUpgrade", "AfterClusterUpgrade", "BeforeClusterDelete",
}

func (c *HookCall) text(field string) string { s, _ := c.Answer[field].(string); return s }

// retry is retryAfterSeconds; 0 if it is not there.
func (c *HookCall) retry() float64 { n, _ := c.Answer[retryField].(float64); return n }

// handlers of a discovery.
func (c *HookCall) handlers() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	listed, _ := c.Answer["handlers"].([]any)
	for _, h := range listed {
		out = append(out, tree(h))
	}
	return out
}

// called are the calls of a name; it is a problem if there is none.
func (s *Shipped) called(p *problems, name string) []*HookCall {
	var out []*HookCall
	for i := range s.Runtime.Calls {
		if s.Runtime.Calls[i].Name == name {
			out = append(out, &s.Runtime.Calls[i])
		}
	}
	if len(out) == 0 {
		p.add("%s was not tried", name)
		return []*HookCall{{}}
	}
	return out
}

// editCalls changes all calls of a name.
func (s *Shipped) editCalls(name string, change func(*HookCall)) {
	found := false
	for i := range s.Runtime.Calls {
		if s.Runtime.Calls[i].Name == name {
			change(&s.Runtime.Calls[i])
			found = true
		}
	}
	if !found {
		panic("no call of " + name)
	}
}

// answering sets a field of the answer.
func answering(field string, value any) func(*HookCall) {
	return func(c *HookCall) { c.Answer[field] = value }
}

// editHandler changes a handler of a discovery.
func editHandler(name string, change func(map[string]any)) func(*HookCall) {
	return func(c *HookCall) {
		for _, h := range c.handlers() {
			if text(h, "name") == name {
				change(h.Object)
				return
			}
		}
		panic("no handler " + name)
	}
}

// hasHandler says whether a discovery lists a hook.
func (c *HookCall) hasHandler(hook string) bool {
	return slices.ContainsFunc(c.handlers(), func(h *unstructured.Unstructured) bool { return text(h, "requestHook", "hook") == hook })
}

// holds is a problem unless the call was held, saying the words.
func (c *HookCall) holds(p *problems, words ...string) {
	p.unless(c.text("status") == hookSuccess && c.retry() > 0, "%s is not held: %v", c.Name, c.Answer)
	for _, word := range words {
		p.unless(strings.Contains(c.text("message"), word), "%s does not say %q: %s", c.Name, word, c.text("message"))
	}
}

// passes is a problem unless the call was answered without a wait.
func (c *HookCall) passes(p *problems) {
	p.unless(c.text("status") == hookSuccess && c.retry() == 0, "%s: %v", c.Name, c.Answer)
}

// clone copies what a Break may change.
func (r RuntimeExtension) clone() RuntimeExtension {
	return RuntimeExtension{FurtherProvider: r.FurtherProvider.clone(), Calls: cloneCalls(r.Calls)}
}

func cloneCalls(calls []HookCall) []HookCall {
	out := slices.Clone(calls)
	for i := range out {
		out[i].Request, out[i].Answer = cloneMap(calls[i].Request), cloneMap(calls[i].Answer)
	}
	return out
}

func cloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	data, err := json.Marshal(m)
	if err != nil {
		panic(err) // it was JSON
	}
	out := map[string]any{}
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

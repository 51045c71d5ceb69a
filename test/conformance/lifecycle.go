// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"
)

// lifecycleRules are the rules of lifecycle hooks (L01–L12).
func lifecycleRules() []Rule {
	return concat(lifecycleCalls(), lifecycleUpgrades(), lifecycleEnds())
}

func lifecycleCalls() []Rule {
	return []Rule{
		{ID: "L01", Level: Must, Tag: TagHTTP, Text: "R10 to R22 hold for lifecycle hooks: each that is offered was called", Check: func(s *Shipped) error {
			var p problems
			tried := map[string]bool{}
			for _, c := range s.Runtime.Calls {
				if c.Code == 200 && c.text("status") == hookSuccess {
					tried[c.Hook] = true
				}
			}
			for _, c := range s.called(&p, callDiscovery) {
				for _, h := range c.handlers() {
					hook := text(h, "requestHook", "hook")
					p.unless(!slices.Contains(lifecycleHooks, hook) || tried[hook], "%s was not called", hook)
				}
			}
			return p.err()
		}, Break: func(s *Shipped) {
			s.Runtime.Calls = slices.DeleteFunc(s.Runtime.Calls, func(c HookCall) bool { return c.Name == callWorkersUpgraded })
		}},
		{ID: "L02", Level: Must, Tag: TagHTTP, Text: "requests and responses have group, version, kind, settings and cluster", Check: envelopes, Live: cleanRequests,
			Break: func(s *Shipped) { s.editCalls(callPatches, answering("kind", "GeneratePatches")) },
			BreakRun: func(r *Run) {
				for i := range r.Hooks {
					if cluster, ok := r.Hooks[i].Request["cluster"].(map[string]any); ok {
						delete(cluster, "spec")
					}
				}
			}},
		{ID: "L03", Level: Must, Tag: TagHTTP, Text: "BeforeClusterCreate can hold a cluster before anything of it is made", Check: func(s *Shipped) error {
			var p problems
			s.called(&p, callHeldCreate)[0].holds(&p, "hosts are missing")
			s.called(&p, callGrantedCreate)[0].passes(&p)
			s.called(&p, callForeignCreate)[0].passes(&p) // I20
			return p.err()
		}, Live: heldBeforeAnything,
			Break: func(s *Shipped) { s.editCalls(callForeignCreate, heldForReasons) },
			BreakRun: func(r *Run) {
				first := slices.IndexFunc(r.Hooks, func(c HookCall) bool { return c.Hook == "GeneratePatches" })
				early := r.Hooks[first]
				r.Hooks = append([]HookCall{early}, r.Hooks...)
			}},
		{ID: "L04", Level: Must, Tag: TagHTTP, Text: "AfterControlPlaneInitialized never blocks", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.called(&p, callInitialized) {
				c.passes(&p)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callInitialized, heldForReasons) }},
	}
}

// heldForReasons makes an answer one that holds, and nothing else.
func heldForReasons(c *HookCall) {
	c.Answer[retryField], c.Answer["message"] = float64(5), "held for reasons of a fixture"
}

func envelopes(s *Shipped) error {
	var p problems
	for _, c := range s.Runtime.Calls {
		if c.Hook == "" {
			continue
		}
		p.unless(c.text("apiVersion") == hookVersion && c.text("kind") == c.Hook+"Response", "%s: %s %s", c.Name, c.text("apiVersion"), c.text("kind"))
	}
	return p.err()
}

// cleanRequests: what Cluster API sends has the envelope, and no status; and all of it
// was answered.
func cleanRequests(r *Run) error {
	var p problems
	about := 0
	for _, c := range r.Hooks {
		p.unless(c.Request["apiVersion"] == hookVersion && c.Request["kind"] == c.Hook+"Request", "%s: %v %v", c.Hook, c.Request["apiVersion"], c.Request["kind"])
		cluster, ok := c.Request["cluster"].(map[string]any)
		if !ok {
			continue
		}
		about++
		spec, _ := cluster["spec"].(map[string]any)
		state, _ := cluster["status"].(map[string]any)
		p.unless(len(spec) > 0 && len(state) == 0, "%s was sent a cluster with spec %d, status %d", c.Hook, len(spec), len(state))
		p.unless(c.text("kind") == c.Hook+"Response", "%s: %v", c.Hook, c.Answer)
	}
	p.unless(about > 0, "no hook was asked about a Cluster")
	return p.err()
}

// heldBeforeAnything: a Cluster was held, let go, and only then were its templates
// computed.
func heldBeforeAnything(r *Run) error {
	var p problems
	held, released := false, false
	for _, c := range r.Hooks {
		switch c.Hook {
		case "BeforeClusterCreate":
			held = held || c.retry() > 0
			released = released || held && c.retry() == 0 && c.text("status") == hookSuccess
		case "GeneratePatches":
			p.unless(released, "templates were computed before the Cluster was let go")
		}
	}
	p.unless(held && released, "held: %t, let go: %t", held, released)
	return p.err()
}

func lifecycleUpgrades() []Rule {
	return []Rule{
		{ID: "L05", Level: Must, Tag: TagHTTP, Text: "BeforeClusterUpgrade can hold an upgrade, and sees all its steps", Check: func(s *Shipped) error {
			var p problems
			// The version without an image is one on the way.
			s.called(&p, callHeldUpgrade)[0].holds(&p, "v1.37.0")
			return p.err()
		}, Break: func(s *Shipped) {
			s.editCalls(callHeldUpgrade, answering("message", "something on the way is missing"))
		}},
		{ID: "L06", Level: Must, Tag: TagDocument, Text: "while an upgrade is held, other changes of the topology wait", Document: contractPage + "#l06-changes-during-a-held-upgrade"},
		{ID: "L07", Level: Must, Tag: TagHTTP, Text: "AfterControlPlaneUpgrade is called after each step, and lets go on", Check: func(s *Shipped) error {
			var p problems
			for _, name := range []string{callStepOne, callStepTwo} {
				for _, c := range s.called(&p, name) {
					c.passes(&p)
				}
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callStepTwo, heldForReasons) }},
		{ID: "L08", Level: Must, Tag: TagHTTP, Text: "AfterClusterUpgrade never asks to be called again",
			Deviation: "It never sets retryAfterSeconds, but has the failure policy Fail. From Cluster API 1.12 on the next upgrade waits while a call fails, which the original document forbids and the later book allows: hosts would stay reserved for days otherwise (decision 0180).",
			Check: func(s *Shipped) error {
				var p problems
				for _, c := range s.called(&p, callUpgraded) {
					c.passes(&p)
				}
				return p.err()
			}, Break: func(s *Shipped) { s.editCalls(callUpgraded, heldForReasons) }},
	}
}

func lifecycleEnds() []Rule {
	return []Rule{
		{ID: "L09", Level: Must, Tag: TagHTTP, Text: "BeforeClusterDelete can hold a deletion; there is a way out", Check: func(s *Shipped) error {
			var p problems
			s.called(&p, callRetained)[0].holds(&p, "kubectl annotate cluster", "retain-")
			s.called(&p, callReleased)[0].passes(&p)
			return p.err()
		}, Live: deletionHeld,
			Break: func(s *Shipped) { s.editCalls(callReleased, heldForReasons) },
			BreakRun: func(r *Run) {
				for i := range r.Hooks {
					if r.Hooks[i].Hook == "BeforeClusterDelete" {
						r.Hooks[i].Answer[retryField] = float64(0)
					}
				}
			}},
		{ID: "L10", Level: May, Tag: TagHTTP, Text: "the hooks before and after each upgrade of control plane and workers", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.called(&p, callDiscovery) {
				for _, hook := range []string{"BeforeControlPlaneUpgrade", "BeforeWorkersUpgrade", "AfterWorkersUpgrade"} {
					p.unless(c.hasHandler(hook), "%s is not offered", hook)
				}
			}
			return p.err()
		}, Break: func(s *Shipped) {
			s.editCalls(callDiscovery, func(c *HookCall) {
				c.Answer["handlers"] = slices.DeleteFunc(c.Answer["handlers"].([]any), func(h any) bool { return text(tree(h), "requestHook", "hook") == "AfterWorkersUpgrade" })
			})
		}},
		{ID: "L11", Level: Must, Tag: TagHTTP, Text: "a response is Success or Failure, with a message where it says something", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.Runtime.Calls {
				if c.Hook == "" || strings.Contains(c.Hook, "Discovery") {
					continue
				}
				state := c.text("status")
				p.unless(state == hookSuccess || state == hookFailure && c.text("message") != "", "%s: status %q, message %q", c.Name, state, c.text("message"))
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callValidation, answering("status", "Perhaps")) }},
		{ID: "L12", Level: Must, Tag: TagDocument, Text: "they are called for clusters with a topology only", Document: contractPage + "#l12-clusters-with-a-topology"},
	}
}

// deletionHeld: the real Cluster API was held, and then let go.
func deletionHeld(r *Run) error {
	var p problems
	held, released := false, false
	for _, c := range r.Hooks {
		if c.Hook == "BeforeClusterDelete" {
			held = held || c.retry() > 0
			released = released || held && c.retry() == 0
		}
	}
	p.unless(held && released, "held: %t, let go: %t", held, released)
	return p.err()
}

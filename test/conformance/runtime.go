// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// runtimeRules are the rules of runtime extensions (R01–R35).
func runtimeRules() []Rule {
	return concat(runtimeServer(), runtimeBehaviour(), runtimeErrors(), runtimeRelease())
}

// runtimeServer are the rules of the server and its discovery (R01–R11).
func runtimeServer() []Rule {
	return []Rule{
		{ID: "R01", Level: Must, Tag: TagHTTP, Text: "hooks are POST operations with JSON bodies, each at its own path below the group and version", Check: postOnly,
			Break: func(s *Shipped) { s.editCalls(callGet, func(c *HookCall) { c.Code = http.StatusOK }) }},
		{ID: "R02", Level: Must, Tag: TagDocument, Text: "a published version of a hook never breaks", Document: contractPage + "#r02-versions-of-hooks"},
		{ID: "R03", Level: Must, Tag: TagDocument, Text: "a deprecated version stays for as long as its stability promises", Document: contractPage + "#r02-versions-of-hooks"},
		{ID: "R04", Level: Must, Tag: TagDocument, Text: "requests convert down, responses convert up", Document: contractPage + "#r02-versions-of-hooks"},
		{ID: "R05", Level: Must, Tag: TagDocument, Text: "nothing is deprecated before something equally stable is there; we serve v1alpha1", Document: contractPage + "#r02-versions-of-hooks"},
		{ID: "R06", Level: Must, Tag: TagHTTP, Text: "an HTTPS server answers discovery and the hooks", Check: overTLS,
			Break: func(s *Shipped) { s.editCalls(callVariables, func(c *HookCall) { c.TLS = false }) }},
		{ID: "R07", Level: Must, Tag: TagHTTP, Text: "every server answers discovery", Check: func(s *Shipped) error {
			var p problems
			for _, name := range []string{callDiscovery, callInPlaceDiscovery} {
				for _, c := range s.called(&p, name) {
					p.unless(c.text("status") == hookSuccess, "%s: %v", name, c.Answer)
				}
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callDiscovery, answering("status", "")) }},
		{ID: "R08", Level: Must, Tag: TagHTTP, Text: "discovery lists handlers with a DNS label, hook, timeout and failure policy", Check: handlersValid,
			Break: func(s *Shipped) {
				s.editCalls(callDiscovery, editHandler("validate-topology", func(h map[string]any) { h["name"] = "Validate_Topology" }))
			}},
		{ID: "R09", Level: Must, Tag: TagHTTP, Text: "each handler has a path of its own", Check: ownPaths,
			Break: func(s *Shipped) {
				s.editCalls(callInPlaceDiscovery, func(c *HookCall) {
					c.Answer["handlers"] = append(c.Answer["handlers"].([]any), c.Answer["handlers"].([]any)[0])
				})
			}},
		{ID: "R10", Level: Must, Tag: TagHTTP, Text: "answers come in milliseconds, never after 10 seconds", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.Runtime.Calls {
				p.unless(c.Took > 0 && c.Took < maxAnswer, "%s took %s", c.Name, c.Took)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callPlan, func(c *HookCall) { c.Took = 11 * time.Second }) }},
		{ID: "R11", Level: Must, Tag: TagHTTP, Text: "garbage and oversize bodies get a Failure, never a crash", Check: func(s *Shipped) error {
			var p problems
			for _, name := range []string{callGarbage, callOversize, callWrongKind} {
				for _, c := range s.called(&p, name) {
					p.unless(c.Code == http.StatusOK && c.text("status") == hookFailure, "%s: %d %v", name, c.Code, c.Answer)
				}
			}
			last := s.Runtime.Calls[len(s.Runtime.Calls)-1]
			p.unless(last.Name == callDiscovery && last.Code == http.StatusOK, "after all of it the server answers %d", last.Code)
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callOversize, func(c *HookCall) { c.Code = http.StatusBadGateway }) }},
	}
}

func postOnly(s *Shipped) error {
	var p problems
	for _, c := range s.called(&p, callGet) {
		p.unless(c.Code == http.StatusMethodNotAllowed, "GET is answered with %d", c.Code)
	}
	for _, c := range s.Runtime.Calls {
		if c.Hook == "" || c.Method != http.MethodPost {
			continue
		}
		path := strings.TrimPrefix(c.Path, "/in-place")
		p.unless(strings.HasPrefix(path, "/"+hookVersion+"/"+strings.ToLower(c.Hook)), "%s is at %s", c.Hook, c.Path)
		p.unless(c.Answer != nil, "%s: the answer is not JSON", c.Name)
	}
	return p.err()
}

func overTLS(s *Shipped) error {
	var p problems
	p.unless(len(s.Runtime.Calls) > 0, "nothing was called")
	for _, c := range s.Runtime.Calls {
		p.unless(c.TLS, "%s was not over TLS", c.Name)
	}
	return p.err()
}

func handlersValid(s *Shipped) error {
	var p problems
	for _, name := range []string{callDiscovery, callInPlaceDiscovery} {
		for _, c := range s.called(&p, name) {
			p.unless(len(c.handlers()) > 0, "%s lists nothing", name)
			for _, h := range c.handlers() {
				label := text(h, "name")
				p.unless(len(validation.IsDNS1123Label(label)) == 0, "%q is no DNS label", label)
				p.unless(text(h, "requestHook", "apiVersion") == hookVersion && text(h, "requestHook", "hook") != "", "%s: %v", label, h.Object["requestHook"])
				if seconds, ok := h.Object["timeoutSeconds"].(float64); ok {
					p.unless(seconds > 0 && seconds <= 30, "%s: timeout %v", label, seconds)
				}
				if policy := text(h, "failurePolicy"); policy != "" {
					p.unless(policy == "Fail" || policy == "Ignore", "%s: policy %s", label, policy)
				}
			}
		}
	}
	return p.err()
}

func ownPaths(s *Shipped) error {
	var p problems
	for _, name := range []string{callDiscovery, callInPlaceDiscovery} {
		for _, c := range s.called(&p, name) {
			seen := map[string]bool{}
			for _, h := range c.handlers() {
				path := text(h, "requestHook", "hook") + "/" + text(h, "name")
				p.unless(!seen[path], "%s is there twice", path)
				seen[path] = true
			}
		}
	}
	return p.err()
}

// runtimeBehaviour are the rules of blocking, side effects and order (R12–R20).
func runtimeBehaviour() []Rule {
	return []Rule{
		{ID: "R12", Level: Must, Tag: TagHTTP, Text: "a blocking hook blocks by retryAfterSeconds", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.called(&p, callHeldControlPlane) {
				c.holds(&p)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callHeldControlPlane, answering(retryField, float64(0))) }},
		{ID: "R13", Level: Must, Tag: TagHTTP, Text: "a retry may come at any time, and is answered", Check: func(s *Shipped) error {
			var p problems
			calls := s.called(&p, callHeldCreate)
			p.unless(len(calls) > 1, "nothing was tried again")
			for _, c := range calls {
				p.unless(c.Code == http.StatusOK, "it is answered with %d", c.Code)
			}
			return p.err()
		}, Break: func(s *Shipped) {
			s.editCalls(callHeldCreate, func(c *HookCall) { c.Code = http.StatusTooManyRequests })
		}},
		{ID: "R14", Level: Must, Tag: TagHTTP, Text: "of several extensions the shortest wait wins: ours is as short as it may be", Check: func(s *Shipped) error {
			var p problems
			held := 0
			for _, c := range s.Runtime.Calls {
				if c.retry() > 0 {
					held++
				}
				p.unless(c.retry() <= mayHoldFor, "%s: %v s", c.Name, c.retry())
			}
			p.unless(held > 0, "nothing was held")
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callHeldWorkers, answering(retryField, float64(60))) }},
		{ID: "R15", Level: Must, Tag: TagHTTP, Text: "being called again with all others does no harm", Check: func(s *Shipped) error {
			var p problems
			calls := s.called(&p, callGrantedCreate)
			p.unless(len(calls) > 1, "nothing was tried again")
			for _, c := range calls[min(1, len(calls)):] {
				p.unless(!c.Wrote, "the second call changed objects")
			}
			return p.err()
		}, Break: func(s *Shipped) { last(s, callGrantedCreate).Wrote = true }},
		{ID: "R16", Level: Should, Tag: TagHTTP, Text: "no side effects, except reservations of hosts and events",
			Deviation: "BeforeClusterCreate and the hooks before an upgrade write an IngotReservation: two Clusters that ask for the same hosts would both be let go otherwise. The write is idempotent (R17).",
			Check: func(s *Shipped) error {
				var p problems
				for _, c := range s.Runtime.Calls {
					p.unless(!c.Wrote || c.Name == callGrantedCreate, "%s changed objects", c.Name)
				}
				return p.err()
			}, Break: func(s *Shipped) { last(s, callHeldUpgrade).Wrote = true }},
		{ID: "R17", Level: Must, Tag: TagHTTP, Text: "where there are any they are idempotent", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.called(&p, callGrantedCreate) {
				p.unless(c.Promises == 1, "%d promises after it", c.Promises)
			}
			return p.err()
		}, Break: func(s *Shipped) { last(s, callGrantedCreate).Promises = 2 }},
		{ID: "R18", Level: Should, Tag: TagHTTP, Text: "no dependency on another extension: each lists its own hooks", Check: ownHooks,
			Break: func(s *Shipped) {
				s.editCalls(callDiscovery, func(c *HookCall) {
					c.Answer["handlers"] = append(c.Answer["handlers"].([]any), map[string]any{
						"name": "update-machine", "requestHook": map[string]any{"apiVersion": hookVersion, "hook": "UpdateMachine"},
					})
				})
			}},
		{ID: "R19", Level: Should, Tag: TagHTTP, Text: "the same question gets the same answer", Check: sameAnswers,
			Break: func(s *Shipped) { last(s, callHeldCreate).Answer["message"] = "another message than it was before" }},
		{ID: "R20", Level: Must, Tag: TagHTTP, Text: "the failure policy is declared, Fail by default", Check: policies,
			Break: func(s *Shipped) {
				s.editCalls(callDiscovery, editHandler("before-cluster-create", func(h map[string]any) { delete(h, "failurePolicy") }))
			}},
	}
}

// last is the last call of a name.
func last(s *Shipped, name string) *HookCall {
	var p problems
	calls := s.called(&p, name)
	return calls[len(calls)-1]
}

func ownHooks(s *Shipped) error {
	var p problems
	for _, c := range s.called(&p, callDiscovery) {
		for _, hook := range []string{"CanUpdateMachine", "CanUpdateMachineSet", "UpdateMachine"} {
			p.unless(!c.hasHandler(hook), "%s is in the first extension", hook)
		}
	}
	for _, c := range s.called(&p, callInPlaceDiscovery) {
		p.unless(len(c.handlers()) >= 3, "it lists %d handlers", len(c.handlers()))
		for _, hook := range lifecycleHooks {
			p.unless(!c.hasHandler(hook), "%s is in the second extension", hook)
		}
	}
	return p.err()
}

func sameAnswers(s *Shipped) error {
	var p problems
	repeated := 0
	first := map[string]*HookCall{}
	for i := range s.Runtime.Calls {
		c := &s.Runtime.Calls[i]
		before, ok := first[c.Name]
		if !ok {
			first[c.Name] = c
			continue
		}
		repeated++
		p.unless(reflect.DeepEqual(before.Answer, c.Answer), "%s: %v, and then %v", c.Name, before.Answer, c.Answer)
	}
	p.unless(repeated > 0, "nothing was asked twice")
	return p.err()
}

func policies(s *Shipped) error {
	var p problems
	for _, c := range s.called(&p, callDiscovery) {
		for _, h := range c.handlers() {
			hook := text(h, "requestHook", "hook")
			want := "Fail"
			if strings.HasPrefix(hook, "After") && hook != "AfterClusterUpgrade" {
				want = "Ignore" // it only writes down
			}
			p.unless(!slices.Contains(lifecycleHooks, hook) || text(h, "failurePolicy") == want, "%s: policy %q, want %s", hook, text(h, "failurePolicy"), want)
		}
	}
	return p.err()
}

// runtimeErrors are the rules of what people read (R21–R22).
func runtimeErrors() []Rule {
	return []Rule{
		{ID: "R21", Level: Must, Tag: TagHTTP, Text: "errors read well in conditions", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.Runtime.Calls {
				message := c.text("message")
				p.unless(len(message) <= maxMessage && !strings.ContainsAny(message, "\n\t"), "%s: %q", c.Name, message)
				p.unless(c.retry() == 0 || len(strings.Fields(message)) >= 4, "%s is held without a reason: %q", c.Name, message)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callHeldWorkers, answering("message", "")) }},
		{ID: "R22", Level: Must, Tag: TagHTTP, Text: "error messages are deterministic and hold no secret", Check: func(s *Shipped) error {
			var p problems
			for _, c := range s.called(&p, callSecret) {
				p.unless(c.text("status") == hookFailure, "%v", c.Answer)
			}
			for _, c := range s.Runtime.Calls {
				p.unless(!strings.Contains(fmt.Sprint(c.Answer), secretMark), "%s tells the secret", c.Name)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.editCalls(callSecret, answering("message", "cannot parse "+secretMark)) }},
	}
}

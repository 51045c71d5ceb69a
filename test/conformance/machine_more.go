// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Requests that the API server is asked, by name.
const (
	TopologyDryRun        = "change a machine template in the topology controller's dry run"
	TopologyDryRunInvalid = "make a machine template invalid in the topology controller's dry run"
	PlainDryRun           = "change a machine template in a dry run of somebody else"
	OnlyAnnotated         = "change a machine template with the topology controller's annotation"
	ChangeTemplate        = "change a machine template"
	InvalidTemplate       = "create a machine template with an invalid label"

	ClusterTopologyDryRun = "change a cluster template in the topology controller's dry run"
	ChangeClusterTemplate = "change a cluster template"

	ChangeMachineSpec     = "change the image of a machine"
	ChangeMachineLabels   = "change the labels of a machine"
	ManagerProviderID     = "write a provider ID as the manager"
	OperatorProviderID    = "write a provider ID as an operator"
	machineTemplateAdmits = "validation.ingotmachinetemplate." + group
	clusterTemplateAdmits = "validation.ingotclustertemplate." + group
)

// answered checks that a request was made and what was answered.
func (s *Shipped) answered(p *problems, name string, allowed bool) Answer {
	a, ok := s.Requests[name]
	p.unless(ok && a.Allowed == allowed, "%s: allowed is %t (%s)", name, a.Allowed, a.Message)
	return a
}

// breakAnswer makes the API server answer the opposite.
func breakAnswer(name string) func(*Shipped) {
	return func(s *Shipped) {
		a := s.Requests[name]
		a.Allowed = !a.Allowed
		s.Requests[name] = a
	}
}

// machineTemplateRules are the rules of the template kind (M31–M37).
func machineTemplateRules() []Rule {
	return []Rule{
		{
			ID: "M31", Level: Must, Tag: TagType, Text: "there is a template, named <InfraMachine>Template",
			Check: func(s *Shipped) error {
				var p problems
				want := s.definition(machines).Spec.Names.Kind + "Template"
				got := s.definition(machineTemplates).Spec.Names.Kind
				p.unless(got == want, "the template's kind is %q, not %q", got, want)
				return p.err()
			},
			Break: func(s *Shipped) {
				names := &s.definition(machineTemplates).Spec.Names
				names.Kind, names.ListKind = "IngotTemplate", "IngotTemplateList"
			},
		},
		{
			ID: "M32", Level: Must, Tag: TagType, Text: "the template has spec.template with metadata and spec",
			Check: func(s *Shipped) error { return templateShape(s, machineTemplates) },
			Break: func(s *Shipped) { s.change(machineTemplates, v1beta1, "spec.template.metadata", without("labels")) },
		},
		{
			ID: "M33", Level: Must, Tag: TagType, Text: "there is a list of templates",
			Check: func(s *Shipped) error { return listType(s, machineTemplates) },
			Break: func(s *Shipped) { breakList(s, machineTemplates) },
		},
		{
			ID: "M34", Level: Must, Tag: TagRelease, Text: "the template is declared with scope, category and storage version",
			Check: func(s *Shipped) error { return markers(s, machineTemplates, false, false) },
			Break: func(s *Shipped) { unset(s.shippedDefinition(machineTemplates), "spec", "names", "categories") },
		},
		{
			ID: "M35", Level: Must, Tag: TagWebhook, Text: "the topology controller's dry run may change a template",
			Check: func(s *Shipped) error {
				var p problems
				s.answered(&p, TopologyDryRun, true)
				return p.err()
			},
			Break: breakAnswer(TopologyDryRun),
		},
		{
			ID: "M36", Level: Must, Tag: TagWebhook, Text: "immutability is a validating webhook's, which sees the request",
			Check: webhookRefuses,
			Break: func(s *Shipped) {
				a := s.Requests[ChangeTemplate]
				a.Webhook = ""
				s.Requests[ChangeTemplate] = a
			},
		},
		{
			ID: "M37", Level: Must, Tag: TagWebhook, Text: "only that dry run skips immutability, and nothing but immutability",
			Check: func(s *Shipped) error {
				var p problems
				for _, name := range []string{PlainDryRun, OnlyAnnotated, TopologyDryRunInvalid, InvalidTemplate} {
					s.answered(&p, name, false)
				}
				return p.err()
			},
			Break: breakAnswer(OnlyAnnotated),
		},
	}
}

// webhookRefuses checks that a template's change is refused by a webhook of the
// release, which is one that fails closed and has no side effects.
func webhookRefuses(s *Shipped) error {
	var p problems
	a := s.answered(&p, ChangeTemplate, false)
	p.unless(a.Webhook == machineTemplateAdmits, "a template's change is refused by %q", a.Webhook)
	registered := false
	for _, o := range ofKind(s.Components, "ValidatingWebhookConfiguration") {
		for _, w := range list(o, "webhooks") {
			webhook := tree(w)
			if text(webhook, "name") == a.Webhook && a.Webhook != "" {
				registered = text(webhook, "failurePolicy") == "Fail" && text(webhook, "sideEffects") == "None"
			}
		}
	}
	p.unless(registered, "the release registers no such webhook that fails closed without side effects")
	return p.err()
}

// machineTenancy are the rules of tenants, instances, clusterctl and pausing
// (M38–M44).
func machineTenancy() []Rule {
	return []Rule{
		{ID: "M38", Level: Should, Tag: TagReconcile, Text: "each tenant's servers are reached with its own credentials", Live: ownCredentials, BreakRun: borrowCredentials},
		{ID: "M39", Level: Must, Tag: TagDocument, Text: "several instances of one provider are not supported by Cluster API", Document: contractBook + "m39-several-instances"},
		{
			ID: "M40", Level: Should, Tag: TagReconcile, Text: "--namespace limits what is reconciled",
			Live: limited(OwnNamespace, ForeignNamespace, beyondNamespaces, kindCluster), BreakRun: unlimited(kindReservation, ForeignNamespace), Exempt: beyondNamespaces,
		},
		{
			ID: "M41", Level: Must, Tag: TagReconcile, Text: "--watch-filter limits what is reconciled",
			Live: limited(OwnFilter, ForeignFilter, notReconciled, kindCluster), BreakRun: unlimited(kindImage, ForeignFilter), Exempt: notReconciled,
		},
		{ID: "M42", Level: Must, Tag: TagReconcile, Text: "clusterctl installs the provider", Live: succeeded("init"), BreakRun: failing("init")},
		{
			ID: "M43", Level: Should, Tag: TagReconcile, Text: "everything reconciled stands still while its Cluster or itself is paused",
			Live: standsStill(notReconciled, kindCluster), BreakRun: moveInPause(kindReservation), Exempt: notReconciled,
		},
		{ID: "M44", Level: Should, Tag: TagReconcile, Text: "a Paused condition says so", Live: saysPaused(notReconciled, kindCluster), BreakRun: hidePause(kindRemediation), Exempt: notReconciled},
	}
}

// ownCredentials checks that each host was reached as the user of its own Secret.
func ownCredentials(r *Run) error {
	var p problems
	users := map[string]string{} // Secret to user
	for _, w := range r.BMC {
		namespace, name, _ := strings.Cut(w.Host, "/")
		v := r.last(Key{kindHost, namespace, name})
		if v == nil {
			p.add("a server that is no host was written to: %s", w.Host)
			continue
		}
		secret := namespace + "/" + text(&v.Object, "spec", "bmc", "credentialsRef", "name")
		if users[secret] == "" {
			users[secret] = w.User
		}
		p.unless(users[secret] == w.User && w.User != "", "%s: was reached as %q and as %q", w.Host, users[secret], w.User)
	}
	different := map[string]bool{}
	for _, user := range users {
		different[user] = true
	}
	p.unless(len(different) > 1, "the run has no two tenants with credentials of their own")
	return p.err()
}

func borrowCredentials(r *Run) {
	for i := range r.BMC {
		if r.BMC[i].User != r.BMC[len(r.BMC)-1].User {
			r.BMC[len(r.BMC)-1].User = r.BMC[i].User
			return
		}
	}
	panic("one user only")
}

// limited checks that a manager which is told to look at some objects reconciles
// these, and leaves others alone: of all kinds but those exempt, and others that another
// rule is about.
func limited(own, foreign string, exempt map[string]string, others ...string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		mine, _ := r.situation(own, &p)
		theirs, _ := r.situation(foreign, &p)
		for _, kind := range r.kindsBut(&p, exempt, others...) {
			p.unless(mine.has(kind) && theirs.has(kind), "no %s inside, or none outside", kind)
			for _, k := range mine.Objects {
				p.unless(k.Kind != kind || r.wrote(k, mine), "%s: was not reconciled", k)
			}
			for _, k := range theirs.Objects {
				p.unless(k.Kind != kind || !r.wrote(k, theirs), "%s: was written by Ingot", k)
				for _, v := range r.history(k) {
					p.unless(k.Kind != kind || !theirs.within(v.Revision) || (!ingotFinalizer(&v.Object) && value(&v.Object, "status") == nil), "%s: was reconciled at revision %d", k, v.Revision)
				}
			}
		}
		return p.err()
	}
}

// has reports whether a situation is about an object of a kind.
func (s *Situation) has(kind string) bool {
	return slices.ContainsFunc(s.Objects, func(k Key) bool { return k.Kind == kind })
}

// wrote reports whether Ingot asked for a change of an object in a situation.
func (r *Run) wrote(k Key, s Situation) bool {
	return slices.ContainsFunc(r.Writes, func(w Write) bool {
		return w.byIngot() && s.during(w.Time) && w.Resource == resourceOf(k.Kind) && w.Namespace == k.Namespace && w.Name == k.Name
	})
}

// unlimited makes Ingot write to an object outside.
func unlimited(kind, foreign string) func(*Run) {
	return func(r *Run) {
		s := r.Situations[foreign]
		for _, k := range s.Objects {
			if k.Kind == kind {
				r.Writes = append(r.Writes, Write{User: ingotUser + "controller-manager", Verb: "patch", Resource: resourceOf(kind), Subresource: "status",
					Namespace: k.Namespace, Name: k.Name, Code: 200, Time: s.From})
			}
		}
	}
}

// succeeded checks that a command of clusterctl was run and did what it should.
func succeeded(command string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		ran := 0
		for _, c := range r.Commands {
			if c.Name == command {
				ran++
				p.unless(c.Err == "", "clusterctl %s: %s", command, c.Err)
			}
		}
		p.unless(ran > 0, "clusterctl %s was not run", command)
		return p.err()
	}
}

func failing(command string) func(*Run) {
	return func(r *Run) {
		for i := range r.Commands {
			if r.Commands[i].Name == command {
				r.Commands[i].Err = "it did not work"
			}
		}
	}
}

// standsStill checks that paused objects do not change, of all kinds but those exempt, and
// others that another rule is about. Of those that are paused themselves a person has taken
// the status away: nothing of it comes back but what tells of the pause.
func standsStill(exempt map[string]string, others ...string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		for _, name := range []string{PausedObject, PausedCluster} {
			s, _ := r.situation(name, &p)
			for _, kind := range r.pausable(&p, name, exempt, others...) {
				p.unless(s.has(kind), "among %s there is no %s", name, kind)
				for _, k := range s.Objects {
					if k.Kind == kind {
						r.still(&p, k, name)
					}
				}
			}
		}
		return p.err()
	}
}

// pausable are the kinds of which a situation has to have an object: a Cluster pauses none
// that is cluster-scoped.
func (r *Run) pausable(p *problems, situation string, exempt map[string]string, others ...string) []string {
	if situation == PausedCluster {
		others = append(slices.Clone(others), r.globalKinds()...)
	}
	return r.kindsBut(p, exempt, others...)
}

// still checks one object in a pause.
func (r *Run) still(p *problems, k Key, situation string) {
	s := r.Situations[situation]
	first := r.at(k, s.First)
	if first == nil {
		p.add("%s: was not there when it was paused", k)
		return
	}
	for _, v := range r.history(k) {
		p.unless(!s.within(v.Revision) || unchanged(first, &v.Object), "%s: changed at revision %d, though paused", k, v.Revision)
	}
	if situation != PausedObject {
		return
	}
	shown, _ := value(first, "status").(map[string]any)
	for field := range shown {
		p.unless(slices.Contains([]string{"conditions", "deprecated", "phase"}, field), "%s: shows status.%s again, though paused", k, field)
	}
	for _, c := range list(first, "status", "conditions") {
		p.unless(text(tree(c), "type") == pausedCondition, "%s: shows condition %s again, though paused", k, text(tree(c), "type"))
	}
}

// moveInPause changes an object in the middle of its Cluster's pause.
func moveInPause(kind string) func(*Run) {
	return func(r *Run) {
		s := r.Situations[PausedCluster]
		for _, k := range s.Objects {
			for _, v := range r.history(k) {
				if k.Kind == kind && v.Revision > s.First && s.within(v.Revision) {
					labels := v.Object.GetLabels()
					if labels == nil {
						labels = map[string]string{}
					}
					labels["changed"] = "true"
					v.Object.SetLabels(labels)
					return
				}
			}
		}
		panic("no version in the pause")
	}
}

// saysPaused checks that objects show a pause while it lasts, and its end.
func saysPaused(exempt map[string]string, others ...string) func(*Run) error {
	return func(r *Run) error {
		var p problems
		for _, name := range []string{PausedObject, PausedCluster} {
			s, _ := r.situation(name, &p)
			kinds := r.pausable(&p, name, exempt, others...)
			for _, kind := range kinds {
				p.unless(s.has(kind), "among %s there is no %s", name, kind)
			}
			for _, k := range s.Objects {
				if !slices.Contains(kinds, k.Kind) {
					continue
				}
				in := r.at(k, s.Last)
				p.unless(in != nil && status(in, pausedCondition) == "True", "%s: has no Paused=True in the pause (%s)", k, name)
				after := r.last(k)
				p.unless(after.Deleted || after.Revision <= s.Last || status(&after.Object, pausedCondition) == "False", "%s: has no Paused=False after the pause (%s)", k, name)
			}
		}
		return p.err()
	}
}

func hidePause(kind string) func(*Run) {
	return func(r *Run) {
		s := r.Situations[PausedObject]
		for _, k := range s.Objects {
			if k.Kind == kind {
				set(condition(r.at(k, s.Last), pausedCondition), "False", "status")
			}
		}
	}
}

// machineAdditions are the rules that v1.14 added (M63–M65).
func machineAdditions() []Rule {
	return []Rule{
		{
			ID: "M63", Level: Must, Tag: TagRelease, Text: "of Cluster API's kinds Ingot sees Clusters and Machines, and changes none but the status of a Machine that a remediation hands over",
			Check: onlyTheContract,
			Break: func(s *Shipped) {
				role := ofKind(s.Components, "ClusterRole")[0]
				set(role, append(list(role, "rules"), map[string]any{
					"apiGroups": []any{"controlplane.cluster.x-k8s.io"}, "resources": []any{"kubeadmcontrolplanes"}, "verbs": []any{"get"},
				}), "rules")
			},
		},
		{
			ID: "M64", Level: May, Tag: TagWebhook, Text: "in place nothing of a machine's spec changes but what Ingot writes back",
			Check: func(s *Shipped) error {
				var p problems
				s.answered(&p, ChangeMachineSpec, false)
				s.answered(&p, OperatorProviderID, false)
				s.answered(&p, ManagerProviderID, true)
				s.answered(&p, ChangeMachineLabels, true)
				return p.err()
			},
			Break: breakAnswer(ChangeMachineSpec),
		},
		{
			ID: "M65", Level: May, Tag: TagTypeRun, Text: "a template tells capacity and node info of the hosts that it selects",
			Check: capacityFields,
			Break: func(s *Shipped) {
				s.change(machineTemplates, v1beta2, "status.nodeInfo.architecture", func(p *apiextensionsv1.JSONSchemaProps) { p.Enum = nil })
			},
			Live: capacityTold,
			BreakRun: func(r *Run) {
				for _, k := range r.keys(kindTemplate) {
					r.edit(k, always, func(o *unstructured.Unstructured) { unset(o, "status", "capacity") })
				}
			},
		},
	}
}

// onlyTheContract checks the roles of the release: the contract is about Clusters
// and Machines, which a provider reads. Claims of addresses are another contract, that
// of IPAM providers, by which an infrastructure provider makes them.
func onlyTheContract(s *Shipped) error {
	var p problems
	may := []string{"clusters", "clusters/status", "machines", "machines/status"}
	for _, role := range ofKind(s.Components, "ClusterRole", "Role") {
		for _, rule := range list(role, "rules") {
			r := tree(rule)
			for _, g := range list(r, "apiGroups") {
				name, _ := g.(string)
				if name == group || !(name == "*" || strings.HasSuffix(name, "cluster.x-k8s.io")) {
					continue
				}
				if name == "ipam.cluster.x-k8s.io" {
					for _, resource := range list(r, "resources") {
						p.unless(strings.HasPrefix(resource.(string), "ipaddress"), "%s may use %s.%s", role.GetName(), resource, name)
					}
					continue
				}
				for _, resource := range list(r, "resources") {
					p.unless(name == "cluster.x-k8s.io" && slices.Contains(may, resource.(string)), "%s may use %s.%s", role.GetName(), resource, name)
				}
				for _, verb := range list(r, "verbs") {
					// External remediation ends in a condition of the Machine.
					if slices.Equal(list(r, "resources"), []any{"machines/status"}) && verb == "patch" {
						continue
					}
					p.unless(slices.Contains([]string{"get", "list", "watch"}, verb.(string)), "%s may %s %s", role.GetName(), verb, name)
				}
			}
		}
	}
	return p.err()
}

func capacityFields(s *Shipped) error {
	var p problems
	for _, v := range versions {
		p.unless(isType(s.schema(machineTemplates, v, "status.capacity"), "object"), "%s: templates have no status.capacity", v)
		p.unless(isType(s.schema(machineTemplates, v, "status.nodeInfo.operatingSystem"), "string"), "%s: templates have no status.nodeInfo.operatingSystem", v)
		architecture := s.schema(machineTemplates, v, "status.nodeInfo.architecture")
		p.unless(architecture != nil && len(architecture.Enum) == 4, "%s: status.nodeInfo.architecture is not one of four", v)
	}
	return p.err()
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
)

// Level is how strongly a document asks for a rule.
type Level string

// The levels of RFC 2119 that the documents use.
const (
	Must   Level = "MUST"
	Should Level = "SHOULD"
	May    Level = "MAY"
)

// Tag says by what a rule is checked.
type Tag string

// The tags; a rule can have several, joined by a slash.
const (
	TagType      Tag = "T"   // the schema of the definitions, or the Go types
	TagRelease   Tag = "R"   // the rendered release
	TagWebhook   Tag = "W"   // the API server's answers to requests
	TagReconcile Tag = "E"   // a run with Cluster API's controllers
	TagHTTP      Tag = "H"   // the runtime extension's server
	TagDocument  Tag = "D"   // a document
	TagTypeRun   Tag = "T/E" // schema and run
	TagShipRun   Tag = "R/E" // release and run
)

// A Rule is one rule of a contract.
type Rule struct {
	// ID names the rule for ever: tests, docs and comments use it.
	ID string
	// Text is the rule in our own short words.
	Text string
	// Source is the section of the document that has the rule; Section has the document.
	Source string
	// Level of the rule, as its document says.
	Level Level
	// Tag says by what it is checked.
	Tag Tag

	// Check fails if what is shipped breaks the rule.
	Check func(*Shipped) error
	// Break makes good evidence break this rule only.
	Break func(*Shipped)
	// Live fails if a run broke the rule. It fails as well if what the rule is
	// about did not happen in the run.
	Live func(*Run) error
	// BreakRun makes a good run break this rule only.
	BreakRun func(*Run)

	// Deviation is why Ingot does something else than the rule asks; empty: it does not.
	// What it does instead is checked all the same.
	Deviation string
	// Exempt are the kinds for which Ingot does not keep the rule, with the reason.
	Exempt map[string]string
	// NotApplicable returns why a rule is about something that Ingot does not have; empty:
	// it has it. The check runs all the same.
	NotApplicable func(*Shipped) string

	// Document is where a rule is kept that only documents can keep: a path in the
	// source tree, a #, and an anchor.
	Document string
}

// A Section is the rules of one document.
type Section struct {
	Name   string
	Source string
	Rules  []Rule
}

// Sections returns all rules by document, in the documents' order.
func Sections() []Section {
	return []Section{machineSection(), clusterSection(), clusterctlSection(), runtimeSection(), lifecycleSection()}
}

func machineSection() Section {
	return Section{
		Name: "InfraMachine", Source: "InfraMachine contract v1beta1; Cluster API book v1.14, contracts/infra-machine",
		Rules: concat(
			from("all resources", machineDefinition()),
			from("resource definition", machineShape()),
			from("provider ID, failure domain, addresses", machineIdentity()),
			from("initialization, conditions, terminal failures", machineStatus()),
			from("InfraMachineTemplate", machineTemplateRules()),
			from("multi tenancy, clusterctl, pausing", machineTenancy()),
			from("normal resource", machineFlow()),
			from("deleted resource", machineDeletion()),
			from("in-place changes, autoscaling from zero (v1.14)", machineAdditions()),
		),
	}
}

func clusterSection() Section {
	return Section{
		Name: "InfraCluster", Source: "cluster infrastructure specification v1beta1; Cluster API book v1.14, contracts/infra-cluster",
		Rules: concat(
			from("InfraCluster resources", clusterDefinition()),
			from("InfraCluster resources", clusterFields()),
			from("InfraClusterTemplate and lists", clusterTemplateType()),
			from("normal resource", clusterFlow()),
			from("deleted resource", clusterDeletion()),
			from("RBAC", clusterAccess()),
			from("conditions, pausing, externally managed (v1.14)", clusterAdditions()),
		),
	}
}

func clusterctlSection() Section {
	return Section{
		Name: "clusterctl", Source: "clusterctl provider contract; Cluster API book v1.14, contracts/clusterctl",
		Rules: concat(
			from("provider repositories", repositoryFiles()),
			from("adding a provider", repositoryName()),
			from("creating a repository; metadata", repositoryPlaces()),
			from("components: naming, target namespace", componentFile()),
			from("components: controllers, labels", componentProcesses()),
			from("components: variables", variableRules()),
			from("cluster templates: naming", templateFiles()),
			from("cluster templates: namespace, variables", templateObjects()),
			from("ClusterClass: naming", classFileRules()),
			from("ClusterClass: namespace", classObjects()),
			from("ClusterClass: variables, notes", classSharing()),
			from("owner references; transformations; links", transformationRules()),
			from("move", moveRules()),
		),
	}
}

func runtimeSection() Section {
	return Section{
		Name: "Runtime SDK", Source: "Runtime SDK proposal; Cluster API book v1.14, runtime-sdk",
		Rules: from("runtime extensions", runtimeRules()),
	}
}

func lifecycleSection() Section {
	return Section{
		Name: "Lifecycle hooks", Source: "lifecycle hooks; Cluster API book v1.14, implement-lifecycle-hooks",
		Rules: from("lifecycle hooks", lifecycleRules()),
	}
}

// from says in which section of its document rules stand.
func from(section string, rules []Rule) []Rule {
	for i := range rules {
		rules[i].Source = section
	}
	return rules
}

// Rules returns all rules in the order of Sections.
func Rules() []Rule {
	var all []Rule
	for _, section := range Sections() {
		all = append(all, section.Rules...)
	}
	return all
}

func concat(lists ...[]Rule) []Rule {
	var all []Rule
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// problems collects what a check finds.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// unless adds a problem if ok is false.
func (p *problems) unless(ok bool, format string, args ...any) {
	if !ok {
		p.add(format, args...)
	}
}

func (p problems) err() error { return errors.Join(p...) }

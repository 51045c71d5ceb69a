// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// machineDefinition are the rules of access, versions and labels (M01–M09).
func machineDefinition() []Rule {
	return []Rule{
		{
			ID: "M01", Level: Should, Tag: TagType, Text: "there is an InfraMachine, as a definition that the API server serves",
			Check: func(s *Shipped) error { return established(s, machines) },
			Break: func(s *Shipped) { breakEstablished(s, machines) },
		},
		{
			ID: "M02", Level: Must, Tag: TagType, Text: "machine and machine template live in namespaces",
			Check: func(s *Shipped) error { return namespaced(s, machineKinds) },
			Break: func(s *Shipped) { breakNamespaced(s, machineTemplates) },
		},
		{
			ID: "M03", Level: Must, Tag: TagType, Text: "they have TypeMeta and ObjectMeta",
			Check: func(s *Shipped) error { return metadataFields(s, machineKinds) },
			Break: func(s *Shipped) { s.change(machines, v1beta1, "metadata", ofType("string")) },
		},
		{
			ID: "M04", Level: Must, Tag: TagRelease, Text: "in a foreign API group, core is granted machines and templates",
			Check:         machineAccess,
			Break:         func(s *Shipped) { moveGroup(s, machines) },
			NotApplicable: inCommonGroup(machines),
		},
		{ID: "M05", Level: Should, Tag: TagDocument, Text: "Kubernetes' deprecation policy for the API versions", Document: contractBook + "m05-deprecation-policy"},
		{ID: "M06", Level: May, Tag: TagDocument, Text: "the API version follows our stability, not Cluster API's number", Document: contractBook + "m06-version-numbers"},
		{
			ID: "M07", Level: Must, Tag: TagRelease, Text: "the definitions carry a label for each contract",
			Check: func(s *Shipped) error { return contractLabels(s, machineKinds) },
			Break: func(s *Shipped) { dropLabel(s, machineTemplates, contractLabel+v1beta1) },
		},
		{
			ID: "M08", Level: Must, Tag: TagRelease, Text: "each version in such a label is served, and the highest keeps the contract",
			Check: func(s *Shipped) error { return labelledVersions(s, machineKinds) },
			Break: func(s *Shipped) { setLabel(s, machines, contractLabel+v1beta2, "v1beta2_v1beta3") },
		},
		{
			ID: "M09", Level: Must, Tag: TagRelease, Text: "the labels' newest contract is the one in metadata.yaml",
			Check: labelsMatchMetadata,
			Break: func(s *Shipped) {
				for i := range s.Metadata.ReleaseSeries {
					s.Metadata.ReleaseSeries[i].Contract = v1beta1
				}
			},
		},
	}
}

// machineShape are the rules of names and markers (M10–M14).
func machineShape() []Rule {
	return []Rule{
		{
			ID: "M10", Level: Must, Tag: TagRelease, Text: "definitions are named as Cluster API computes it, the inventory's too",
			Check: func(s *Shipped) error { return definitionName(s, append(s.plurals(clusterKinds...), inventory...)) },
			Break: func(s *Shipped) { s.shippedDefinition(hardwares).SetName("ingothardware." + group) },
		},
		{
			ID: "M11", Level: Should, Tag: TagType, Text: "the kind is named <environment>Machine",
			Check: func(s *Shipped) error {
				var p problems
				kind := s.definition(machines).Spec.Names.Kind
				environment, ok := strings.CutSuffix(kind, "Machine")
				p.unless(ok && strings.EqualFold(environment, s.Name), "the kind is named %q", kind)
				return p.err()
			},
			Break: renameMachine,
		},
		{
			ID: "M12", Level: Must, Tag: TagRelease, Text: "the machine is declared with scope, short name, category, storage version and status",
			Check: func(s *Shipped) error { return markers(s, machines, true, true) },
			Break: func(s *Shipped) {
				unset(tree(list(s.shippedDefinition(machines), "spec", "versions")[0]), "subresources")
			},
		},
		{
			ID: "M13", Level: Must, Tag: TagType, Text: "the machine has spec and status",
			Check: func(s *Shipped) error {
				var p problems
				for _, v := range versions {
					for _, field := range []string{"spec", "status"} {
						p.unless(isType(s.schema(machines, v, field), "object"), "%s machines have no %s", v, field)
					}
				}
				return p.err()
			},
			Break: func(s *Shipped) { s.change(machines, v1beta1, "status", ofType("string")) },
		},
		{
			ID: "M14", Level: Must, Tag: TagType, Text: "there is a list of machines with TypeMeta, ListMeta and items",
			Check: func(s *Shipped) error { return listType(s, machines) },
			Break: func(s *Shipped) { breakList(s, machines) },
		},
	}
}

// machineAccess checks what a foreign group would need, and that Ingot may set
// owner references that block a deletion, which the API server can be told to
// check (OwnerReferencesPermissionEnforcement).
func machineAccess(s *Shipped) error {
	p := problems{}
	if err := foreignGroup(s, machineKinds, []string{"create", "delete", "get", "list", "patch", "update", "watch"}); err != nil {
		p = append(p, err)
	}
	p.unless(grants(ofKind(s.Components, "ClusterRole"), group, hosts+"/finalizers")["update"],
		"no role may update %s/finalizers, which owner references to hosts need", hosts)
	return p.err()
}

func dropLabel(s *Shipped, plural, label string) {
	o := s.shippedDefinition(plural)
	labels := o.GetLabels()
	delete(labels, label)
	o.SetLabels(labels)
}

func setLabel(s *Shipped, plural, label, value string) {
	o := s.shippedDefinition(plural)
	labels := o.GetLabels()
	labels[label] = value
	o.SetLabels(labels)
}

func labelsMatchMetadata(s *Shipped) error {
	var p problems
	series := s.series()
	for _, plural := range append(slices.Clone(machineKinds), clusterKinds...) {
		newest := newestContract(s.shippedDefinition(plural))
		p.unless(series != nil && newest == series.Contract, "the newest contract of %s is %q, and metadata.yaml says otherwise", plural, newest)
	}
	return p.err()
}

// renameMachine gives the kinds of machines consistent names that are not those of
// a machine.
func renameMachine(s *Shipped) {
	for plural, kind := range map[string]string{machines: "IngotServer", machineTemplates: "IngotServerTemplate"} {
		names := &s.definition(plural).Spec.Names
		names.Kind, names.ListKind = kind, kind+"List"
	}
}

// machineIdentity are the rules of identity and place (M15–M20).
func machineIdentity() []Rule {
	return []Rule{
		{
			ID: "M15", Level: Must, Tag: TagTypeRun, Text: "spec.providerID is an optional string, 1 to 512 long, and equals the Node's",
			Check: providerIDField,
			Break: func(s *Shipped) {
				s.change(machines, v1beta1, "spec", func(p *apiextensionsv1.JSONSchemaProps) { p.Required = append(p.Required, "providerID") })
			},
			Live:     providerIDOfNodes,
			BreakRun: func(r *Run) { r.Nodes[0].ProviderID = "ingot://site/other/00000000-0000-0000-0000-000000000000" },
		},
		{
			ID: "M15b", Level: Must, Tag: TagReconcile, Text: "the provider ID is fixed before the server boots, and every Machine finds its Node by it",
			Live: providerIDFixed, BreakRun: changeProviderID,
		},
		{
			ID: "M16", Level: Must, Tag: TagReconcile, Text: "core copies the provider ID to the Machine once it is provisioned",
			Live:     machineCopies("spec.providerID", "spec.providerID", true),
			BreakRun: breakMachineCopy("ingot://site/other/00000000-0000-0000-0000-000000000000", "spec", "providerID"),
		},
		{
			ID: "M17", Level: Must, Tag: TagReconcile, Text: "a machine is placed in the failure domain asked for, or not at all",
			Live: placedAsAsked, BreakRun: placeElsewhere,
		},
		{
			ID: "M18", Level: May, Tag: TagTypeRun, Text: "status.failureDomain surfaces; spec.failureDomain is never there empty to overwrite the Machine's",
			Check: failureDomainField,
			Break: func(s *Shipped) {
				s.change(machines, v1beta1, "spec", func(p *apiextensionsv1.JSONSchemaProps) {
					p.Properties["failureDomain"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
				})
			},
			Live:     machineCopies("status.failureDomain", "status.failureDomain", false),
			BreakRun: breakMachineCopy("another", "status", "failureDomain"),
		},
		{
			ID: "M19", Level: Must, Tag: TagTypeRun, Text: "addresses are in status.addresses",
			Check:    addressesField,
			Break:    func(s *Shipped) { s.change(machines, v1beta1, "status", without("addresses")) },
			Live:     machineCopies("status.addresses", "status.addresses", false),
			BreakRun: breakMachineCopy([]any{map[string]any{"type": "InternalIP", "address": "192.0.2.9"}}, "status", "addresses"),
		},
		{
			ID: "M20", Level: Must, Tag: TagType, Text: "an address is of one of five types",
			Check: addressTypes,
			Break: func(s *Shipped) {
				s.change(machines, v1beta2, "status.addresses.[].type", func(p *apiextensionsv1.JSONSchemaProps) { p.Enum = nil })
			},
		},
	}
}

// machineStatus are the rules of what is told (M21–M30).
func machineStatus() []Rule {
	return []Rule{
		{
			ID: "M21", Level: Must, Tag: TagTypeRun, Text: "status.ready and status.initialization.provisioned tell that the server is provisioned",
			Check:    func(s *Shipped) error { return provisionedFields(s, machines) },
			Break:    func(s *Shipped) { s.change(machines, v1beta1, "status", without("ready")) },
			Live:     reportsProvisioned,
			BreakRun: neverReportsWorker,
		},
		{ID: "M22", Level: Must, Tag: TagReconcile, Text: "that never changes once it is true", Live: staysProvisioned("IngotMachine"), BreakRun: unprovision("IngotMachine")},
		{ID: "M23", Level: Must, Tag: TagReconcile, Text: "core takes readiness, provider ID and addresses together", Live: takenTogether, BreakRun: takeProviderIDLater},
		{
			ID: "M24", Level: Should, Tag: TagType, Text: "there are status.conditions",
			Check: func(s *Shipped) error { return conditionsField(s, machines) },
			Break: func(s *Shipped) { s.change(machines, v1beta2, "status.conditions", ofType("object")) },
		},
		{
			ID: "M25", Level: Must, Tag: TagType, Text: "conditions have the form of their contract",
			Check: func(s *Shipped) error { return conditionForms(s, machines) },
			Break: func(s *Shipped) { s.change(machines, v1beta1, "status.conditions.[]", without("severity")) },
		},
		{
			ID: "M26", Level: Should, Tag: TagReconcile, Text: "Ready is mirrored to the Machine's InfrastructureReady",
			Live: mirrored("IngotMachine", "Machine"), BreakRun: breakMirror("Machine"),
		},
		{
			ID: "M27", Level: Should, Tag: TagReconcile, Text: "Ready covers creation, life and deletion; a server that is off is told of at once",
			Live: readyAllLife, BreakRun: silentDeletion,
		},
		{
			ID: "M28", Level: Should, Tag: TagTypeRun, Text: "a terminal failure is in status.failureReason and failureMessage of v1beta1",
			Check:    func(s *Shipped) error { return failureFields(s, machines) },
			Break:    func(s *Shipped) { s.change(machines, v1beta1, "status", without("failureMessage")) },
			Live:     terminalFailure,
			BreakRun: func(r *Run) { unset(r.legacy(r.Situations[Terminal].Objects[0]), "status", "failureMessage") },
		},
		{ID: "M29", Level: Must, Tag: TagReconcile, Text: "errors that can pass are never terminal failures", Live: noFalseAlarm, BreakRun: falseAlarm},
		{ID: "M30", Level: Must, Tag: TagDocument, Text: "after a terminal failure only a new Machine helps", Document: contractBook + "m30-terminal-failures"},
	}
}

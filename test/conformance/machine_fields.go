// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import "slices"

// providerIDField checks the schema of spec.providerID.
func providerIDField(s *Shipped) error {
	var p problems
	for _, v := range versions {
		p.unless(bounds(s.schema(machines, v, "spec.providerID"), 1, 512), "%s: spec.providerID is not a string of 1 to 512", v)
		p.unless(s.optional(machines, v, "spec", "providerID"), "%s: spec.providerID is required", v)
	}
	return p.err()
}

// failureDomainField checks that status has a failure domain, and that one in spec
// (the older, reverse process) is never there empty: of a field that exists core
// takes the value, whatever it is.
func failureDomainField(s *Shipped) error {
	var p problems
	for _, v := range versions {
		p.unless(bounds(s.schema(machines, v, "status.failureDomain"), 1, 256), "%s: status.failureDomain is not a string of 1 to 256", v)
		p.unless(s.optional(machines, v, "status", "failureDomain"), "%s: status.failureDomain is required", v)
		if own := s.schema(machines, v, "spec.failureDomain"); own != nil {
			p.unless(s.optional(machines, v, "spec", "failureDomain") && own.MinLength != nil && *own.MinLength >= 1 && own.Default == nil,
				"%s: spec.failureDomain can be there and empty", v)
		}
	}
	return p.err()
}

func addressesField(s *Shipped) error {
	var p problems
	for _, v := range versions {
		p.unless(isType(s.schema(machines, v, "status.addresses"), "array"), "%s: status.addresses is not a list", v)
	}
	return p.err()
}

// addressTypes checks that the schema admits the five types and no other.
func addressTypes(s *Shipped) error {
	want := []string{`"ExternalDNS"`, `"ExternalIP"`, `"Hostname"`, `"InternalDNS"`, `"InternalIP"`}
	var p problems
	for _, v := range versions {
		if s.schema(machines, v, "status.addresses") == nil {
			continue // M19
		}
		var enum []string
		field := s.schema(machines, v, "status.addresses.[].type")
		if field != nil {
			for _, e := range field.Enum {
				enum = append(enum, string(e.Raw))
			}
		}
		slices.Sort(enum)
		p.unless(slices.Equal(enum, want), "%s: types of addresses are %v", v, enum)
		item := s.schema(machines, v, "status.addresses.[]")
		p.unless(item != nil && slices.Contains(item.Required, "type"), "%s: an address needs no type", v)
	}
	return p.err()
}

// provisionedFields checks the fields by which both contracts tell that all is
// there: a bool in v1beta1, and a bool in an object that is not empty in v1beta2.
func provisionedFields(s *Shipped, plural string) error {
	var p problems
	p.unless(isType(s.schema(plural, v1beta1, "status.ready"), "boolean"), "v1beta1: status.ready of %s is not a boolean", plural)
	p.unless(isType(s.schema(plural, v1beta2, "status.initialization.provisioned"), "boolean"), "v1beta2: status.initialization.provisioned of %s is not a boolean", plural)
	initialization := s.schema(plural, v1beta2, "status.initialization")
	p.unless(initialization != nil && initialization.MinProperties != nil && *initialization.MinProperties == 1,
		"v1beta2: status.initialization of %s may be empty", plural)
	return p.err()
}

func conditionsField(s *Shipped, plural string) error {
	var p problems
	for _, v := range versions {
		p.unless(isType(s.schema(plural, v, "status.conditions"), "array"), "%s: status.conditions of %s is not a list", v, plural)
	}
	return p.err()
}

// conditionForms checks the fields of conditions: Cluster API's own in v1beta1,
// those of Kubernetes in v1beta2.
func conditionForms(s *Shipped, plural string) error {
	var p problems
	common := []string{"type", "status", "reason", "message", "lastTransitionTime"}
	for v, fields := range map[string][]string{v1beta1: append(slices.Clone(common), "severity"), v1beta2: append(slices.Clone(common), "observedGeneration")} {
		for _, field := range fields {
			p.unless(s.schema(plural, v, "status.conditions.[]."+field) != nil, "%s: a condition of %s has no %s", v, plural, field)
		}
	}
	p.unless(isType(s.schema(plural, v1beta1, "status.v1beta2.conditions"), "array"), "v1beta1: %s has no status.v1beta2.conditions", plural)
	return p.err()
}

// failureFields checks the fields of terminal failures, which only v1beta1 has;
// the hub keeps them where core's own kinds keep them.
func failureFields(s *Shipped, plural string) error {
	var p problems
	for _, field := range []string{"failureReason", "failureMessage"} {
		p.unless(isType(s.schema(plural, v1beta1, "status."+field), "string"), "v1beta1: status.%s of %s is not a string", field, plural)
		p.unless(isType(s.schema(plural, v1beta2, "status.deprecated.v1beta1."+field), "string"), "v1beta2: status.deprecated.v1beta1.%s of %s is not a string", field, plural)
	}
	return p.err()
}

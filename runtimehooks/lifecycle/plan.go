// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// upgradePlan names the versions that a control plane goes through from one to
// another: of each minor version on the way the newest for which known is true, and
// the last, whether it is known or not: an upgrade to a version without an image is held
// before it begins. Workers go by versions of the same list, which Cluster API chooses.
func upgradePlan(from, to string, known func(minor string) (newest string, ok bool)) ([]string, error) {
	first, err := version.ParseSemantic(from)
	if err != nil {
		return nil, fmt.Errorf("the version to upgrade from, %q, is no version", from)
	}
	last, err := version.ParseSemantic(to)
	if err != nil {
		return nil, fmt.Errorf("the version to upgrade to, %q, is no version", to)
	}
	switch {
	case from == to:
		return nil, nil // only workers are behind
	case last.LessThan(first):
		return nil, fmt.Errorf("%s is older than %s: Cluster API does not go back", to, from)
	case last.Major() != first.Major():
		return nil, fmt.Errorf("from %s to %s is a change of the major version", from, to)
	}
	var plan []string
	for minor := first.Minor() + 1; minor < last.Minor(); minor++ {
		name := fmt.Sprintf("v%d.%d", first.Major(), minor)
		step, ok := known(name)
		if !ok {
			return nil, fmt.Errorf("from %s to %s goes by way of %s, for which no image is known: create an IngotImage of that version, or upgrade by one minor version", from, to, name)
		}
		plan = append(plan, step)
	}
	return append(plan, to), nil
}

// newestOf returns what upgradePlan asks: of versions, the newest of a minor version
// that is whole.
func newestOf(versions []string, has func(string) bool) func(string) (string, bool) {
	return func(minor string) (string, bool) {
		best, newest := "", (*version.Version)(nil)
		for _, text := range versions {
			v, err := version.ParseSemantic(text)
			if err != nil || fmt.Sprintf("v%d.%d", v.Major(), v.Minor()) != minor || v.PreRelease() != "" {
				continue
			}
			if (newest == nil || newest.LessThan(v) || v.EqualTo(newest) && text > best) && has(text) {
				best, newest = text, v
			}
		}
		return best, newest != nil
	}
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"
)

// upgradePlan returns the versions of a control plane upgrade: the newest version of each minor
// version between from and to that newest returns, and to itself. Another hook holds the upgrade if
// to has no image. Cluster API chooses the versions of workers from the same list.
func upgradePlan(from, to string, newest func(minor string) (version string, ok bool)) ([]string, error) {
	first, err := version.ParseSemantic(from)
	if err != nil {
		return nil, fmt.Errorf("the current version %q is not a semantic version", from)
	}
	last, err := version.ParseSemantic(to)
	if err != nil {
		return nil, fmt.Errorf("the target version %q is not a semantic version", to)
	}
	switch {
	case from == to:
		return nil, nil // only workers are upgraded
	case last.LessThan(first):
		return nil, fmt.Errorf("the target version %s is older than %s; Cluster API does not downgrade", to, from)
	case last.Major() != first.Major():
		return nil, fmt.Errorf("an upgrade from %s to %s changes the major version", from, to)
	}
	var plan []string
	for minor := first.Minor() + 1; minor < last.Minor(); minor++ {
		name := fmt.Sprintf("v%d.%d", first.Major(), minor)
		step, ok := newest(name)
		if !ok {
			return nil, fmt.Errorf("the upgrade from %s to %s needs an image for %s; create an IngotImage of that version, or upgrade by one minor version", from, to, name)
		}
		plan = append(plan, step)
	}
	return append(plan, to), nil
}

// newestOf returns a function that returns the newest release of a minor version for which has is
// true.
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

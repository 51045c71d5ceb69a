// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// lookupTimeout limits how long a request waits for a warning, also while the cache is being filled.
const lookupTimeout = time.Second

// Checker reads IngotHosts, IngotHardwares, IngotClusters and IngotNetworks from an indexed cache
// (internal/index).
type Checker struct {
	Reader client.Reader
}

// Machine warns if no host of the namespace, free or in use, meets the requirements of an
// IngotMachine or of its template. path is the path of spec.
func (c Checker) Machine(ctx context.Context, namespace string, path *field.Path, spec v1beta2.IngotMachineSpec) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	warnings := c.addresses(ctx, path.Child("networkData"), spec.NetworkData)
	if none := c.noHosts(ctx, namespace); none != nil {
		return append(warnings, none...)
	}
	selector := labels.Everything()
	if s := spec.HostSelector; s != nil {
		wanted := &metav1.LabelSelector{MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions}
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(wanted); err != nil {
			return warnings // rejected by the validation
		}
		if c.none(ctx, namespace, selector) {
			return append(warnings, unmatched(path.Child("hostSelector"), selector, "of namespace "+namespace))
		}
	}
	return append(warnings, c.hardware(ctx, scope{namespace, selector}, path, spec)...)
}

// Cluster warns if no host of the namespace matches the selectors or has the failure domain label
// of an IngotCluster or of its template. path is the path of spec.
func (c Checker) Cluster(ctx context.Context, namespace string, path *field.Path, spec v1beta2.IngotClusterSpec) []string {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if none := c.noHosts(ctx, namespace); none != nil {
		return none
	}
	admitted, controlPlane := parseSelector(spec.HostSelector), parseSelector(spec.ControlPlaneSelector)
	if admitted == nil || controlPlane == nil {
		return nil // rejected by the validation
	}
	if !admitted.Empty() && c.none(ctx, namespace, admitted) {
		return []string{unmatched(path.Child("hostSelector"), admitted, "of namespace "+namespace)}
	}
	var warnings []string
	if !controlPlane.Empty() && c.none(ctx, namespace, and(admitted, controlPlane)) {
		warnings = append(warnings, unmatched(path.Child("controlPlaneSelector"), controlPlane, "that hostSelector matches"))
	}
	// Sites with one rack do not label it, so the default label is not a mistake.
	if key := spec.FailureDomainLabel; key != "" && key != v1beta2.RackLabel && c.none(ctx, namespace, and(admitted, hasLabel(key))) {
		warnings = append(warnings, fmt.Sprintf("%s: no IngotHost for this cluster has the label %q; label the hosts, or correct it: "+
			"the cluster has no failure domains until then", path.Child("failureDomainLabel"), key))
	}
	return warnings
}

// noHosts warns if the namespace has no host, and returns nil otherwise.
func (c Checker) noHosts(ctx context.Context, namespace string) []string {
	if !c.none(ctx, namespace, labels.Everything()) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.namespace: %q has no IngotHost; register hosts there: machines use only hosts "+
		"of their own namespace, and wait until then", namespace)}
}

func unmatched(path *field.Path, selector labels.Selector, where string) string {
	return fmt.Sprintf("%s: %q matches no IngotHost %s; label the hosts, or correct it: its machines wait until then", path, selector, where)
}

// some and none report whether a host, or no host, matches. Both are false on an error.
func (c Checker) some(ctx context.Context, namespace string, selector labels.Selector) bool {
	found, err := c.find(ctx, namespace, selector)
	return err == nil && found
}

func (c Checker) none(ctx context.Context, namespace string, selector labels.Selector) bool {
	found, err := c.find(ctx, namespace, selector)
	return err == nil && !found
}

// find reports whether a host matches.
func (c Checker) find(ctx context.Context, namespace string, selector labels.Selector) (bool, error) {
	hosts := &v1beta2.IngotHostList{}
	err := c.Reader.List(ctx, hosts, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	return len(hosts.Items) > 0, err
}

// parseSelector parses a selector. An unset selector matches everything; an invalid one returns nil.
func parseSelector(selector *metav1.LabelSelector) labels.Selector {
	if selector == nil {
		return labels.Everything()
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return parsed
}

// and matches what both a and b match.
func and(a, b labels.Selector) labels.Selector {
	requirements, selectable := b.Requirements()
	if !selectable {
		return labels.Nothing()
	}
	return a.Add(requirements...)
}

// hasLabel matches objects with the label key. It matches nothing if key is invalid.
func hasLabel(key string) labels.Selector {
	requirement, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

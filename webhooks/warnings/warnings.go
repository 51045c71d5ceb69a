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

// patience bounds every look at the cache: a request does not wait longer for a
// warning, not even while the cache is still being filled.
const patience = time.Second

// Outlook reads IngotHosts, IngotHardwares, IngotClusters and IngotNetworks from an
// indexed cache (see internal/index).
type Outlook struct {
	Reader client.Reader
}

// Machine warns of an IngotMachine, or of a template of it, that no host of the
// namespace can serve, whether the hosts are free or not. path leads to spec.
func (o Outlook) Machine(ctx context.Context, namespace string, path *field.Path, spec v1beta2.IngotMachineSpec) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	warnings := o.addresses(ctx, path.Child("networkData"), spec.NetworkData)
	if none := o.noHosts(ctx, namespace); none != nil {
		return append(warnings, none...)
	}
	selector := labels.Everything()
	if s := spec.HostSelector; s != nil {
		wanted := &metav1.LabelSelector{MatchLabels: s.MatchLabels, MatchExpressions: s.MatchExpressions}
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(wanted); err != nil {
			return warnings // refused already
		}
		if o.none(ctx, namespace, selector) {
			return append(warnings, unmatched(path.Child("hostSelector"), selector, "of namespace "+namespace))
		}
	}
	return append(warnings, o.hardware(ctx, scope{namespace, selector}, path, spec)...)
}

// Cluster warns of selectors and of a failure domain label of an IngotCluster, or of
// a template of it, that fit no host of the namespace. path leads to spec.
func (o Outlook) Cluster(ctx context.Context, namespace string, path *field.Path, spec v1beta2.IngotClusterSpec) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if none := o.noHosts(ctx, namespace); none != nil {
		return none
	}
	admitted, controlPlane := parse(spec.HostSelector), parse(spec.ControlPlaneSelector)
	if admitted == nil || controlPlane == nil {
		return nil // refused already
	}
	if !admitted.Empty() && o.none(ctx, namespace, admitted) {
		return []string{unmatched(path.Child("hostSelector"), admitted, "of namespace "+namespace)}
	}
	var warnings []string
	if !controlPlane.Empty() && o.none(ctx, namespace, both(admitted, controlPlane)) {
		warnings = append(warnings, unmatched(path.Child("controlPlaneSelector"), controlPlane, "that hostSelector admits"))
	}
	// Sites with one rack do not label it, so that the default is no mistake.
	if key := spec.FailureDomainLabel; key != "" && key != v1beta2.RackLabel && o.none(ctx, namespace, both(admitted, labelled(key))) {
		warnings = append(warnings, fmt.Sprintf("%s: no IngotHost of the cluster's carries the label %q; label the hosts, or correct it, "+
			"until then the cluster has no failure domains", path.Child("failureDomainLabel"), key))
	}
	return warnings
}

// noHosts warns of a namespace without any host; nil if it has one.
func (o Outlook) noHosts(ctx context.Context, namespace string) []string {
	if !o.none(ctx, namespace, labels.Everything()) {
		return nil
	}
	return []string{fmt.Sprintf("metadata.namespace: %q has no IngotHost; register hosts there, until then its machines wait "+
		"(a machine is given hosts of its own namespace)", namespace)}
}

func unmatched(path *field.Path, selector labels.Selector, where string) string {
	return fmt.Sprintf("%s: %q matches no IngotHost %s; label the hosts so, or correct it, until then its machines wait", path, selector, where)
}

// some and none say whether a host matches; both are false where nobody knows.
func (o Outlook) some(ctx context.Context, namespace string, selector labels.Selector) bool {
	found, err := o.find(ctx, namespace, selector)
	return err == nil && found
}

func (o Outlook) none(ctx context.Context, namespace string, selector labels.Selector) bool {
	found, err := o.find(ctx, namespace, selector)
	return err == nil && !found
}

// find ends with the first host that matches.
func (o Outlook) find(ctx context.Context, namespace string, selector labels.Selector) (bool, error) {
	hosts := &v1beta2.IngotHostList{}
	err := o.Reader.List(ctx, hosts, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector},
		client.Limit(1), client.UnsafeDisableDeepCopy)
	return len(hosts.Items) > 0, err
}

// parse reads a selector; unset, it selects everything. nil: it does not parse.
func parse(selector *metav1.LabelSelector) labels.Selector {
	if selector == nil {
		return labels.Everything()
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil
	}
	return parsed
}

// both selects what a and b select.
func both(a, b labels.Selector) labels.Selector {
	requirements, selectable := b.Requirements()
	if !selectable {
		return labels.Nothing()
	}
	return a.Add(requirements...)
}

// labelled selects what carries the label, whatever its value; nothing, if key is none.
func labelled(key string) labels.Selector {
	requirement, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return labels.Nothing()
	}
	return labels.NewSelector().Add(*requirement)
}

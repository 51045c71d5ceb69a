// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// FailureDomainLabel returns the label whose values are the cluster's failure domains.
func FailureDomainLabel(cluster *infrav1.IngotCluster) string {
	if cluster == nil || cluster.Spec.FailureDomainLabel == "" {
		return infrav1.RackLabel
	}
	return cluster.Spec.FailureDomainLabel
}

// ShownFailureDomain returns the failure domain that the status of a host shows: the one of its
// claim (I11), else the value of the failure domain label of the first cluster, in the given order,
// that may use the host and whose label the host has. Without clusters the rack label counts.
func ShownFailureDomain(host *infrav1.IngotHost, clusters []infrav1.IngotCluster) string {
	if claim := host.Spec.Claim; claim != nil && claim.FailureDomain != "" {
		return claim.FailureDomain
	}
	if len(clusters) == 0 {
		return host.Labels[infrav1.RackLabel]
	}
	for i := range clusters {
		selector := labels.Everything()
		if wanted := clusters[i].Spec.HostSelector; wanted != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(wanted); err != nil {
				continue // no cluster with an invalid selector uses hosts
			}
		}
		if domain := host.Labels[FailureDomainLabel(&clusters[i])]; domain != "" && selector.Matches(labels.Set(host.Labels)) {
			return domain
		}
	}
	return ""
}

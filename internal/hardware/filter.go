// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// FilterByWatchLabel returns the hosts with the label of --watch-filter: only the manager of that label may
// power or fence them (M41). With an empty value it returns all. It changes the slice, but no host.
func FilterByWatchLabel(hosts []infrav1.IngotHost, value string) []infrav1.IngotHost {
	if value == "" {
		return hosts
	}
	return slices.DeleteFunc(hosts, func(host infrav1.IngotHost) bool { return !labels.HasWatchLabel(&host, value) })
}

// WatchFilter returns a predicate for objects with the label of --watch-filter (M41), or for all with an
// empty value. It always admits IngotHardware, IngotReservation and IPAddressClaim, which Ingot creates
// without labels, and IngotImage and IngotNetwork, which are shared. Reconcilers check the label again.
func WatchFilter(scheme *runtime.Scheme, log logr.Logger, value string) predicate.Predicate {
	ours := predicate.NewPredicateFuncs(func(o client.Object) bool {
		switch o.(type) {
		case *infrav1.IngotHardware, *infrav1.IngotReservation, *ipamv1.IPAddressClaim, *infrav1.IngotImage, *infrav1.IngotNetwork:
			return true
		}
		return false
	})
	return predicate.Or(ours, predicates.ResourceHasFilterLabel(scheme, log, value))
}

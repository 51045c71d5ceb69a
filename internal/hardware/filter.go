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

// LookedAfter are those of the hosts that carry --watch-filter's label: nobody but the
// manager of that label switches or fences them (M41). An empty value: all. It changes the
// slice, and none of the hosts.
func LookedAfter(hosts []infrav1.IngotHost, value string) []infrav1.IngotHost {
	if value == "" {
		return hosts
	}
	return slices.DeleteFunc(hosts, func(host infrav1.IngotHost) bool { return !labels.HasWatchLabel(&host, value) })
}

// WatchFilter lets through what carries --watch-filter's label (M41; an empty value:
// everything), and every IngotHardware, IngotReservation, IPAddressClaim, IngotImage and
// IngotNetwork: the first three Ingot makes, and nobody labels them; a catalogue and a
// network are everybody's.
// To whom it leads is asked again when that is reconciled.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

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

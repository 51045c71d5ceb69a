// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Adopt registers a collector, or replaces it by the one that is there: that of an
// earlier server of the process. It fails where the registry does, or where the other is
// of another type.
func Adopt[C prometheus.Collector](registry prometheus.Registerer, collector *C) error {
	err := registry.Register(*collector)
	var earlier prometheus.AlreadyRegisteredError
	if !errors.As(err, &earlier) {
		return err
	}
	known, ok := earlier.ExistingCollector.(C)
	if !ok {
		return err
	}
	*collector = known
	return nil
}

// Replace registers a collector, in the place of the one that is there: that of an earlier
// manager of the process. It fails where the registry does.
func Replace(registry prometheus.Registerer, collector prometheus.Collector) error {
	err := registry.Register(collector)
	var earlier prometheus.AlreadyRegisteredError
	if errors.As(err, &earlier) && registry.Unregister(earlier.ExistingCollector) {
		err = registry.Register(collector)
	}
	return err
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package collect registers metrics of components that a process may start several times:
// boot servers, and in tests whole managers.
//
//	err := errors.Join(collect.RegisterOrGet(registry, &m.requests), collect.RegisterOrGet(registry, &m.bytes))
package collect

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterOrGet registers a collector, or replaces it with the one that an earlier component
// of the process registered. It fails if the registry does, or if the types differ.
func RegisterOrGet[C prometheus.Collector](registry prometheus.Registerer, collector *C) error {
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

// Replace registers a collector instead of the one that an earlier manager of the process
// registered. It fails if the registry does.
func Replace(registry prometheus.Registerer, collector prometheus.Collector) error {
	err := registry.Register(collector)
	var earlier prometheus.AlreadyRegisteredError
	if errors.As(err, &earlier) && registry.Unregister(earlier.ExistingCollector) {
		err = registry.Register(collector)
	}
	return err
}

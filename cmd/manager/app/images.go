// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/controllers/image"
	"github.com/ingot-metal/ingot/controllers/reservation"
)

const (
	// reservationConcurrency is one: a look at a promise is a look at all of them.
	reservationConcurrency = 1
	// imageConcurrency is how many image servers are asked at once: each may take ten
	// seconds, and an hour is long.
	imageConcurrency = 4
)

// addCatalogue adds what looks after promises of hosts and after the images that
// templates name.
func addCatalogue(mgr manager.Manager, o *Options, recorder events.EventRecorder) error {
	counted, err := reservation.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	fetch, err := o.Images.client()
	if err != nil {
		return fmt.Errorf("look at images: %w", err)
	}
	return errors.Join(
		(&reservation.Reconciler{
			Client: mgr.GetClient(), Recorder: recorder, Clock: clock.RealClock{}, WatchFilterValue: o.WatchFilter,
			Timing: o.Timing, Metrics: counted,
		}).SetupWithManager(mgr, workers(reservationConcurrency)),
		(&image.Reconciler{
			Client: mgr.GetClient(), HTTP: fetch, Recorder: recorder, Clock: clock.RealClock{}, Timing: o.Timing, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workers(imageConcurrency)),
	)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/ingot-metal/ingot/controllers/image"
	"github.com/ingot-metal/ingot/controllers/reservation"
)

const (
	// reservationConcurrency is one, because each reconcile evaluates all reservations.
	reservationConcurrency = 1
	// imageConcurrency is the number of concurrent image probes, which take up to ten seconds each
	// and run hourly.
	imageConcurrency = 4
)

// addImageControllers adds the controllers of reservations and images.
func addImageControllers(mgr manager.Manager, o *Options, recorder events.EventRecorder) error {
	reservationMetrics, err := reservation.NewMetrics(metrics.Registry)
	if err != nil {
		return err
	}
	fetch, err := o.Images.client()
	if err != nil {
		return err
	}
	return errors.Join(
		(&reservation.Reconciler{
			Client: mgr.GetClient(), Recorder: recorder, Clock: clock.RealClock{}, WatchFilterValue: o.WatchFilter,
			Timing: o.Timing, Metrics: reservationMetrics,
		}).SetupWithManager(mgr, workers(reservationConcurrency)),
		(&image.Reconciler{
			Client: mgr.GetClient(), HTTP: fetch, Recorder: recorder, Clock: clock.RealClock{}, Timing: o.Timing, WatchFilterValue: o.WatchFilter,
		}).SetupWithManager(mgr, workers(imageConcurrency)),
	)
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timing holds the delays of Ingot's controllers that are not flags of the manager.
// They are one struct, so that tests of many hosts can shorten all of them by one factor.
//
//	delays := timing.Timing{Conflict: time.Millisecond}.WithDefaults()
package timing

import (
	"reflect"
	"time"
)

// Timing holds delays. Zero fields mean those of Default.
type Timing struct {
	// Conflict is when a reconcile starts over that met a newer version of its object.
	Conflict time.Duration

	// BMCCalls limits all calls to a BMC in one reconcile of a host, including the wait for
	// its session: a BMC that hangs must not keep a worker (I13).
	BMCCalls time.Duration
	// BMCBackoffFirst and BMCBackoffMax are the first and the longest delay before a BMC that
	// fails is tried again (I13).
	BMCBackoffFirst, BMCBackoffMax time.Duration
	// PowerSettle is when the power state is read again after a power action.
	PowerSettle time.Duration
	// HealthSettle is how long a better health must last before it is shown: a sensor at its
	// threshold would change the status at every poll.
	HealthSettle time.Duration
	// HealthDetail is how often the components of an unhealthy server are read again, which
	// may take 80 requests. HealthDetailMin is the shortest time between two reads when the
	// state changes.
	HealthDetail, HealthDetailMin time.Duration

	// FirmwareDownload limits the download of a firmware image, and FirmwareResult is how
	// long its result is used. FirmwarePush limits the push of an image to a BMC, including
	// the wait for other calls to the BMC.
	FirmwareDownload, FirmwareResult, FirmwarePush time.Duration

	// Placement is when a machine without a host looks again if no event triggers it before.
	Placement time.Duration
	// PoolAnswer is how long an IPAM provider may take to answer a new claim before the
	// machine or host reports that it waits for an address.
	PoolAnswer time.Duration
	// NodeJoin is how long a Node may take to join after a first boot that failed. HostLost is
	// how long a server may be off, or its BMC silent, before its machine is not Ready.
	NodeJoin, HostLost time.Duration

	// RemediationCheck is how often the Node and the Machine are read while a deadline runs,
	// RemediationIdle how often otherwise.
	RemediationCheck, RemediationIdle time.Duration

	// NodeCheck is how often Nodes without a provider ID are read while a machine has none.
	NodeCheck time.Duration
	// LabelDispute is how often a label is restored that another client changes each time.
	LabelDispute time.Duration

	// ReservationCheck is how often a reservation looks whether its hosts are still there.
	// ReservationPaused is when it is read again after its Paused condition was written.
	ReservationCheck, ReservationPaused time.Duration

	// ImageCheck is the time between two requests to an image that answers, ImageRetry after
	// one that did not.
	ImageCheck, ImageRetry time.Duration
}

// Default returns the delays as shipped.
func Default() Timing {
	return Timing{
		Conflict: time.Second,
		BMCCalls: time.Minute, BMCBackoffFirst: 5 * time.Second, BMCBackoffMax: 5 * time.Minute, PowerSettle: 3 * time.Second,
		HealthSettle: 5 * time.Minute, HealthDetail: 6 * time.Hour, HealthDetailMin: 10 * time.Minute,
		FirmwareDownload: 15 * time.Minute, FirmwareResult: 10 * time.Minute, FirmwarePush: 31 * time.Minute,
		Placement: 30 * time.Second, PoolAnswer: time.Minute, NodeJoin: 2 * time.Minute, HostLost: 5 * time.Minute,
		RemediationCheck: 15 * time.Second, RemediationIdle: 4 * time.Minute,
		NodeCheck: time.Minute, LabelDispute: 5 * time.Minute,
		ReservationCheck: time.Minute, ReservationPaused: time.Second,
		ImageCheck: time.Hour, ImageRetry: 10 * time.Minute,
	}
}

// WithDefaults returns the delays with zero fields replaced by those of Default.
func (t Timing) WithDefaults() Timing {
	defaults, own := reflect.ValueOf(Default()), reflect.ValueOf(&t).Elem()
	for i := range own.NumField() {
		if own.Field(i).IsZero() {
			own.Field(i).Set(defaults.Field(i))
		}
	}
	return t
}

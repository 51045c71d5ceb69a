// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// This file keeps agents off servers that may be in use (I21). A server that restarts while its
// host's state comes from a backup may get an order of the backup. Its agent is sent back to the
// disk, and the host is held.

func markersOf(disks []agentapi.Disk) []agentapi.Marker {
	var markers []agentapi.Marker
	for _, disk := range disks {
		if disk.Marker != nil {
			markers = append(markers, *disk.Marker)
		}
	}
	return markers
}

// systemInUse returns the instance whose system may be in use on the caller's server. It returns
// "" if there is none, or if the host's state can be trusted.
func (s *Server) systemInUse(ctx context.Context, host *infrav1.IngotHost, c caller) (string, error) {
	order := host.Spec.Order
	restarted := order != nil && order.AgentKey != "" && order.AgentKey != c.key
	instance := lifecycle.SystemInUse(host, c.markers, restarted)
	if instance == "" || s.StateSince == nil {
		return "", nil
	}
	since, err := s.StateSince(ctx)
	if err != nil || !lifecycle.IsUnconfirmed(host, since) {
		return "", err
	}
	return instance, nil
}

// protectSystemInUse makes an agent that found a system in use boot that system from the disk,
// whatever becomes of its order. The answer to a caller that did not prove its identity, or that
// must retry, stays as it is.
func protectSystemInUse(d decision, inUse string) decision {
	if inUse == "" {
		return d
	}
	switch {
	case d.refusal == nil, d.revoke, d.rebooted:
		d = decision{inUse: inUse, refusal: orderGone("the disk holds a system that may be in use")}
	case d.refusal.Reason != agentapi.ReasonOrderGone && d.refusal.Reason != agentapi.ReasonKeyConflict:
		return d
	}
	d.refusal.Action = agentapi.BootDisk
	return d
}

// endInUse ends the order, and reports the system that was found.
func (s *Server) endInUse(ctx context.Context, host *infrav1.IngotHost, c caller, instance string) error {
	result := lifecycle.LeftInUse(instance, s.Clock.Now())
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) { order.Result = result })
	if ended {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonStateUnconfirmed, eventAction, "%s", result.Message)
	}
	return err
}

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

// This file keeps agents off servers that may be in use (I21). A server that restarts while
// its host's state comes from a backup may be answered by an order of the backup. Its agent
// is sent back to the disk, and what it found holds the host.

func markersOf(disks []agentapi.Disk) []agentapi.Marker {
	var markers []agentapi.Marker
	for _, disk := range disks {
		if disk.Marker != nil {
			markers = append(markers, *disk.Marker)
		}
	}
	return markers
}

// systemInUse returns the instance whose system may be in use on the caller's server; empty:
// there is none, or the host's state can be trusted.
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

// leaveInUse changes the verdict on an agent that found a system which may be in use: the
// agent boots it from the disk, whatever becomes of its order. A caller that did not prove
// who it is, or that comes again, is answered as any.
func leaveInUse(v verdict, inUse string) verdict {
	if inUse == "" {
		return v
	}
	switch {
	case v.refusal == nil, v.revoke, v.rebooted:
		v = verdict{inUse: inUse, refusal: orderGone("the disk holds a system that may be in use")}
	case v.refusal.Reason != agentapi.ReasonOrderGone && v.refusal.Reason != agentapi.ReasonKeyConflict:
		return v
	}
	v.refusal.Action = agentapi.BootDisk
	return v
}

// endInUse ends the order, and reports what was found.
func (s *Server) endInUse(ctx context.Context, host *infrav1.IngotHost, c caller, instance string) error {
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) {
		order.Result = lifecycle.LeftInUse(instance, s.Clock.Now())
	})
	if ended {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonStateUnconfirmed, action, "%s", lifecycle.LeftInUse(instance, s.Clock.Now()).Message)
	}
	return err
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events is an emulated BMC's event service (DSP0266, eventing):
// subscriptions with pushes to their destinations, and server-sent events.
//
// It must not know what happens: lab/bmc tells it. It runs nothing while nobody
// has subscribed; OnUse and OnIdle tell when somebody has.
//
//	s := events.New(events.Config{Personality: p, Client: http.DefaultClient})
//	defer s.Close()
//	s.Tell(events.Event{MessageID: "ResourceEvent.1.3.ResourcePoweredOn", Message: "…", Origin: p.System()})
package events

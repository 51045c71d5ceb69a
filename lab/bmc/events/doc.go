// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events is the event service of an emulated BMC (DSP0266, eventing): subscriptions with
// pushes to their destinations, and server-sent events. lab/bmc reports the events. Without a
// receiver the service runs no goroutine; OnUse and OnIdle report whether there is one.
//
//	s := events.New(events.Config{Personality: p, Client: http.DefaultClient})
//	defer s.Close()
//	s.Send(events.Event{MessageID: "ResourceEvent.1.3.ResourcePoweredOn", Message: "…", Origin: p.System()})
package events

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/server"
)

// A mark is how a server was at one moment: its disk's bytes and its BMC's orders are counted
// from there on.
type mark struct {
	bytes  int64
	orders int
}

func isSession(path string) bool { return strings.Contains(path, "/SessionService") }

func markOf(s *datacenter.Server) mark {
	m := mark{orders: len(s.BMC.Writes())}
	for _, d := range s.Simulated.Disks() {
		written, zeroed := d.BytesWritten()
		m.bytes += written + zeroed
	}
	return m
}

// written is how many bytes the server's disks took since the mark.
func (m mark) written(s *datacenter.Server) int64 { return markOf(s).bytes - m.bytes }

// switched lists the orders to switch the server off, to reset it or to cycle its power that
// its BMC took since the mark.
func (m mark) switched(s *datacenter.Server) []string {
	var orders []string
	for _, w := range s.BMC.Writes()[m.orders:] {
		reset, isReset := strings.CutPrefix(w.Action, "Reset ")
		if isReset && reset != "On" && reset != "ForceOn" && w.Status < 300 && w.Status != 0 {
			orders = append(orders, reset)
		}
	}
	return orders
}

// inUse reports what lacks for the server to be in use: a complete system on its disk, which
// runs.
func inUse(s *datacenter.Server) string {
	state, err := s.Disk()
	switch {
	case err != nil:
		return err.Error()
	case state.Marker == nil || !state.Marker.Complete:
		return fmt.Sprintf("its disk holds no complete system: %+v", state.Marker)
	case !s.Powered():
		return "it is off"
	}
	instance := fmt.Sprintf("%s-%d", state.Marker.InstanceID, state.Marker.Attempt)
	runs, scrubbed := false, false
	for _, e := range s.Simulated.Events() {
		switch e.Kind {
		case server.EventSystem:
			runs = true
		case server.EventPOST, server.EventPowerOff:
			runs = false
		case server.EventScrubbed:
			scrubbed = scrubbed || e.Detail == instance
		}
	}
	switch {
	case !runs:
		return "its system does not run"
	case !scrubbed:
		return "the first boot of its system has not ended"
	}
	return ""
}

// agents counts how often Ingot's agent was started on the server.
func agents(s *datacenter.Server) int {
	n := 0
	for _, e := range s.Simulated.Events() {
		if e.Kind == server.EventAgent && strings.HasPrefix(e.Detail, "starts") {
			n++
		}
	}
	return n
}

// boots counts how often a system was started from the server's disk.
func boots(s *datacenter.Server) int {
	n := 0
	for _, e := range s.Simulated.Events() {
		if e.Kind == server.EventSystem {
			n++
		}
	}
	return n
}

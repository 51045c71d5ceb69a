// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/datacenter"
)

// result is what was counted.
type result struct{ provisioned, released int }

// countProvisioned counts machines that are provisioned by all witnesses: the API
// says so and names the host, the host's disk bears the complete marker of this
// very instance, its BMC was told to boot as its host says, and the server is on.
// It remembers the hosts in use.
func (s *show) countProvisioned(ctx context.Context) (int, error) {
	v, err := s.look(ctx)
	if err != nil {
		return 0, err
	}
	count := 0
	for i := range v.machines {
		machine := &v.machines[i]
		id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
		if err != nil || !ptr.Deref(machine.Status.Initialization.Provisioned, false) {
			continue
		}
		server := s.dc.Server(id.Host)
		disk, err := server.Disk()
		if err != nil {
			return 0, err
		}
		installed := disk.Marker != nil && disk.Marker.Complete && disk.Marker.InstanceID == id.InstanceID
		if !installed || !server.Powered() || !slices.ContainsFunc(server.BMC.Actions(), bootsBy(id.Host)) {
			s.say("machine %s says that it is provisioned; its server does not bear that out (disk %+v, on %t)", machine.Name, disk, server.Powered())
			continue
		}
		count++
		s.inUse = append(s.inUse, id.Host)
	}
	return count, nil
}

// bootsBy knows the BMC's action that boots the agent on a server.
func bootsBy(name string) func(action string) bool {
	p, _ := placeOf(name)
	target := map[string]bmc.Target{"": bmc.TargetPXE, "VirtualMedia": bmc.TargetCD, "HTTP": bmc.TargetHTTP}[p.method]
	return func(action string) bool { return strings.HasPrefix(action, "Boot Once "+string(target)) }
}

// countReleased counts the hosts that were in use and are free now, by all
// witnesses: the record says cleaned, the disk has neither partition table nor
// marker, and the server is off.
func (s *show) countReleased(ctx context.Context) (int, error) {
	v, err := s.look(ctx)
	if err != nil {
		return 0, err
	}
	count := 0
	for i := range v.hosts {
		host := &v.hosts[i]
		if !slices.Contains(s.inUse, host.Name) || host.Spec.Claim != nil {
			continue
		}
		server := s.dc.Server(host.Name)
		disk, err := server.Disk()
		if err != nil {
			return 0, err
		}
		cleaned := host.Spec.Record != nil && !host.Spec.Record.SanitizedAt.IsZero()
		if cleaned {
			for _, d := range host.Spec.Record.CleanedDisks {
				s.say("host %s: disk %s is clean by %s, %d bytes read back", host.Name, d.Disk.SerialNumber, d.Method, ptr.Deref(d.VerifiedBytes, 0))
			}
		}
		if !cleaned || disk != (datacenter.DiskState{}) || server.Powered() {
			s.say("host %s is free; its server does not bear that out (disk %+v, on %t)", host.Name, disk, server.Powered())
			continue
		}
		count++
	}
	return count, nil
}

// conclude says in one line what was counted, and fails when it falls short.
func (s *show) conclude(ctx context.Context) error {
	released, err := s.countReleased(ctx)
	if err != nil {
		return err
	}
	s.result.released = released
	line := fmt.Sprintf("demo: %d of %d machines provisioned, %d released and wiped, %.0f s",
		s.result.provisioned, s.Machines, s.result.released, time.Since(s.started).Seconds())
	if s.result != (result{provisioned: s.Machines, released: wantReleased}) {
		return fmt.Errorf("it fell short: %s", line)
	}
	if s.KillManager && len(s.kills) != len(torments) {
		return fmt.Errorf("the manager was killed at %d of %d moments: %s", len(s.kills), len(torments), strings.Join(s.kills, ", "))
	}
	fmt.Fprintln(s.Out, line)
	return nil
}

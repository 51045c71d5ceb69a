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

// result contains the counted machines.
type result struct{ provisioned, released int }

// countProvisioned counts the provisioned machines and records their hosts. It requires that the API
// reports the machine as provisioned, that the host's disk has the complete marker of the instance, that
// the BMC was set to the host's boot method, and that the server is on.
func (s *show) countProvisioned(ctx context.Context) (int, error) {
	v, err := s.list(ctx)
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
			s.say("Machine %s is reported as provisioned, but its server is not (disk %+v, on %t)", machine.Name, disk, server.Powered())
			continue
		}
		count++
		s.inUse = append(s.inUse, id.Host)
	}
	return count, nil
}

// bootsBy returns a function that matches the BMC action for booting the agent on a server.
func bootsBy(name string) func(action string) bool {
	p := serverNamed(name)
	target := map[string]bmc.Target{"": bmc.TargetPXE, "VirtualMedia": bmc.TargetCD, "HTTP": bmc.TargetHTTP}[p.method]
	return func(action string) bool { return strings.HasPrefix(action, "Boot Once "+string(target)) }
}

// countReleased counts the released hosts. It requires that the record contains the cleaning, that the
// disk has neither partition table nor marker, and that the server is off.
func (s *show) countReleased(ctx context.Context) (int, error) {
	v, err := s.list(ctx)
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
		cleaned := host.Spec.Record != nil && !host.Spec.Record.SanitizedTime.IsZero()
		if cleaned {
			for _, d := range host.Spec.Record.CleanedDisks {
				s.say("Host %s: disk %s was cleaned by %s, %d bytes verified", host.Name, d.Disk.SerialNumber, d.Method, ptr.Deref(d.VerifiedBytes, 0))
			}
		}
		if !cleaned || disk != (datacenter.DiskState{}) || server.Powered() {
			s.say("Host %s is reported as free, but its server is not (disk %+v, on %t)", host.Name, disk, server.Powered())
			continue
		}
		count++
	}
	return count, nil
}

// conclude prints the result, and returns an error if it is incomplete.
func (s *show) conclude(ctx context.Context) error {
	released, err := s.countReleased(ctx)
	if err != nil {
		return err
	}
	s.result.released = released
	line := fmt.Sprintf("demo: %d of %d machines provisioned, %d released and wiped, %.0f s",
		s.result.provisioned, s.Machines, s.result.released, time.Since(s.started).Seconds())
	if s.result != (result{provisioned: s.Machines, released: wantReleased}) {
		return fmt.Errorf("incomplete result: %s", line)
	}
	if s.KillManager && len(s.kills) != len(killPoints) {
		return fmt.Errorf("the manager was killed at %d of %d moments: %s", len(s.kills), len(killPoints), strings.Join(s.kills, ", "))
	}
	fmt.Fprintln(s.Out, line)
	return nil
}

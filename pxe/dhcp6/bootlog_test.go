// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp6

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// The boot log has the same stages for a boot by IPv6: firmware, loader, script, files, and the
// agent, which uses IPv4.
func TestBootLog(t *testing.T) {
	const solicit, request = dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeRequest
	address := netip.MustParseAddr(right)
	for name, tc := range map[string]struct {
		plan  pxe.PlanKind
		by    []change
		loads bool
		want  bootlog.Boot
	}{
		"UEFI": {pxe.Agent, []change{uefi(), ipxe()}, true, bootlog.Boot{Firmware: "UEFI x64", Outcome: bootlog.AgentStarted,
			Marks: marks(bootlog.DHCP, bootlog.Loader, bootlog.Script, bootlog.Kernel, bootlog.Initramfs, bootlog.Agent)}},
		"iPXE": {pxe.Agent, []change{ipxe()}, false, bootlog.Boot{Firmware: "iPXE", Outcome: bootlog.AgentStarted,
			Marks: marks(bootlog.DHCP, bootlog.Script, bootlog.Kernel, bootlog.Initramfs, bootlog.Agent)}},
		"to the disk": {pxe.LocalDisk, []change{ipxe()}, false, bootlog.Boot{Firmware: "iPXE", Outcome: bootlog.BootedFromDisk,
			Marks: marks(bootlog.DHCP, bootlog.Script)}},
		"a system": {pxe.LocalDisk, []change{with()}, false, bootlog.Boot{}},
	} {
		t.Run(name, func(t *testing.T) {
			var boots []bootlog.Boot
			now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
			clock := func() time.Time { now = now.Add(time.Second); return now }
			tracker := bootlog.New(bootlog.Options{Now: clock, Deliver: func(_ context.Context, list []bootlog.Boot) error {
				boots = append(boots, list...)
				return nil
			}})
			host := testHost(tc.plan)
			s := Server{Identity: testIdentity, Directory: directory(host), Observer: tracker, Now: clock}
			for i, by := range tc.by {
				for _, m := range []*dhcpv6.Message{message(solicit, client(), ia(1), by), message(request, client(), chosen(), ia(1, right), by)} {
					s.handle(&kept{}, Query{Packet: m.ToBytes(), From: linkLocal})
				}
				if i == 0 && tc.loads {
					tracker.Observe(pxe.BootEvent{Client: address, Stage: pxe.StageLoader, Detail: "snponly.efi", At: clock()})
					// UEFI releases its address before it starts the loaded program.
					s.handle(&kept{}, Query{Packet: message(dhcpv6.MessageTypeRelease, client(), chosen(), ia(1, right), by).ToBytes(), From: linkLocal})
				}
			}
			if name != "a system" {
				tracker.Observe(pxe.BootEvent{MAC: hostMAC, Client: address, Stage: pxe.StageScript, Detail: host.Plan.NetworkBootKind().String(), At: clock()})
			}
			if tc.plan == pxe.Agent {
				for _, file := range []string{"vmlinuz", "initramfs"} {
					tracker.Observe(pxe.BootEvent{Client: address, Stage: pxe.StageFile, Detail: file, At: clock()})
				}
				tracker.Observe(pxe.BootEvent{MAC: hostMAC, Host: host.Key(), Stage: pxe.StageOffer, FromAgent: true, Plan: tc.plan, At: clock()})
			}
			s.handle(&kept{}, Query{Packet: message(dhcpv6.MessageTypeRelease, client(), chosen(), ia(1, right), ipxe()).ToBytes(), From: linkLocal})
			now = now.Add(bootlog.DefaultQuiet)
			tracker.Flush(t.Context())
			var want []bootlog.Boot
			if tc.want.Outcome != "" {
				tc.want.Host, tc.want.MAC = host.Key(), hostMAC.String()
				want = []bootlog.Boot{tc.want}
			}
			for i := range boots {
				for n := range boots[i].Marks {
					boots[i].Marks[n].At = time.Time{}
				}
			}
			if diff := cmp.Diff(want, boots); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func marks(stages ...bootlog.Stage) (out []bootlog.Mark) {
	for _, stage := range stages {
		out = append(out, bootlog.Mark{Stage: stage})
	}
	return out
}

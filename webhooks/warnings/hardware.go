// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package warnings

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/allocation"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// maxDetail limits the description of one host in a warning, in characters.
const maxDetail = 300

// requirements are the requirements of a machine on the hardware.
type requirements struct {
	architecture string
	minimum      v1beta2.HardwareMinimum
	hints        *v1beta2.RootDeviceHints
	raid         *v1beta2.SoftwareRAID
	network      *v1beta2.NetworkData
}

func requirementsOf(spec v1beta2.IngotMachineSpec) requirements {
	out := requirements{hints: spec.RootDeviceHints, raid: spec.SoftwareRAID, network: spec.NetworkData}
	if s := spec.HostSelector; s != nil {
		out.architecture = s.Architecture
		if s.Minimum != nil {
			out.minimum = *s.Minimum
		}
	}
	return out
}

// bestHardware collects the best value of each property over all inspected hosts.
type bestHardware struct {
	// known counts the inspected hosts.
	known                  int
	cores, memory, disk    int64
	architecture, rootDisk bool
	// unmet are the root device hints that match no disk of any host.
	unmet []inventory.UnmetHint
	nics  nicFit
	// complete reports that one host meets all requirements.
	complete bool
}

// hardware warns about requirements that no inspected host in scope meets. path is the path of spec.
func (c Checker) hardware(ctx context.Context, in scope, path *field.Path, spec v1beta2.IngotMachineSpec) []string {
	want := requirementsOf(spec)
	if want == (requirements{}) {
		return nil
	}
	best, err := c.best(ctx, in, want)
	if err != nil || best.known == 0 || best.complete {
		return nil
	}
	var warnings []string
	warn := func(where fmt.Stringer, format string, arguments ...any) {
		warnings = append(warnings, fmt.Sprintf("%s: none of the %d inspected hosts has %s; correct it, or register such hosts: its machines wait until then",
			where, best.known, fmt.Sprintf(format, arguments...)))
	}
	selector := path.Child("hostSelector")
	if !best.architecture {
		warn(selector.Child("architecture"), "architecture %q", want.architecture)
	}
	if n := want.minimum.Cores; n != nil && int64(*n) > best.cores {
		warn(selector.Child("minimum", "cores"), "%d cores (maximum: %d)", *n, best.cores)
	}
	if n := want.minimum.Memory; n != nil && n.CmpInt64(best.memory) > 0 {
		warn(selector.Child("minimum", "memory"), "%s (maximum: %s)", n, inventory.MemoryQuantity(best.memory))
	}
	switch n := want.minimum.Disk; {
	case !best.rootDisk && want.raid != nil:
		warn(path.Child("softwareRAID"), "two suitable disks")
	case !best.rootDisk && len(best.unmet) > 0:
		for _, h := range best.unmet {
			warn(hintValue(path.Child("rootDeviceHints"), h), "a matching disk")
		}
	case !best.rootDisk && want.hints != nil:
		warn(path.Child("rootDeviceHints"), "a matching disk")
	case n != nil && n.CmpInt64(best.disk) > 0:
		warn(selector.Child("minimum", "disk"), "a root disk of %s (maximum: %s)", n, inventory.DiskQuantity(best.disk))
	}
	ethernets := path.Child("networkData", "ethernets")
	unknown, settled := c.unknownMACs(ctx, in, ethernets, want.network, best.nics.missing())
	warnings = append(warnings, unknown...)
	best.nics.warn(ethernets, want.network, settled, warn)
	if len(warnings)+len(settled) == 0 {
		warn(path, "everything that hostSelector, rootDeviceHints and networkData require, though other hosts have each part")
	}
	return warnings
}

func (c Checker) best(ctx context.Context, in scope, want requirements) (bestHardware, error) {
	all, err := c.candidates(ctx, in)
	if err != nil {
		return bestHardware{}, err
	}
	var best bestHardware
	for _, candidate := range all {
		if inventory.IsInspected(candidate.Hardware) {
			best.add(candidate, want)
		}
	}
	return best, nil
}

func (c Checker) candidates(ctx context.Context, in scope) ([]allocation.Candidate, error) {
	hosts, hardware := &v1beta2.IngotHostList{}, &v1beta2.IngotHardwareList{}
	err := c.Reader.List(ctx, hosts, client.InNamespace(in.namespace), client.MatchingLabelsSelector{Selector: in.selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	if err := c.Reader.List(ctx, hardware, client.InNamespace(in.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return allocation.Candidates(hosts.Items, hardware.Items), nil
}

func (b *bestHardware) add(candidate allocation.Candidate, want requirements) {
	facts := candidate.Hardware.Spec
	hints := want.hints
	if hints == nil {
		hints = candidate.Host.Spec.RootDeviceHints
	}
	rootDisks, err := inventory.SelectRootDisks(facts.Disks, hints, want.raid)
	bytes := inventory.RootBytes(rootDisks)
	architecture := want.architecture == "" || want.architecture == facts.Architecture
	misfits := networkdata.Misfits(want.network, networkdata.Host{BootMAC: candidate.Host.Spec.BootMACAddress, NICs: facts.NICs})
	b.nics.add(candidate.Host.Name, misfits)
	cores, memory := int64(facts.CPU.Cores), inventory.MemoryBytes(facts)
	minimum := want.minimum
	if b.known == 0 || len(b.unmet) > 0 {
		b.keepUnmet(inventory.UnmetHints(facts.Disks, want.hints))
	}
	b.known++
	b.cores, b.memory, b.disk = max(b.cores, cores), max(b.memory, memory), max(b.disk, bytes)
	b.architecture = b.architecture || architecture
	b.rootDisk = b.rootDisk || err == nil
	b.complete = b.complete || architecture && err == nil && len(misfits) == 0 &&
		(minimum.Cores == nil || cores >= int64(*minimum.Cores)) &&
		(minimum.Memory == nil || minimum.Memory.CmpInt64(memory) <= 0) &&
		(minimum.Disk == nil || minimum.Disk.CmpInt64(bytes) <= 0)
}

// keepUnmet keeps the hints that this host does not meet either.
func (b *bestHardware) keepUnmet(unmet []inventory.UnmetHint) {
	if b.known == 0 {
		b.unmet = unmet
		return
	}
	b.unmet = slices.DeleteFunc(b.unmet, func(h inventory.UnmetHint) bool {
		return !slices.ContainsFunc(unmet, func(other inventory.UnmetHint) bool { return other.Field == h.Field })
	})
}

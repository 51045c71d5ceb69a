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

// bytesPerGB is what disk makers, and the API, mean by a gigabyte.
const bytesPerGB = 1_000_000_000

// maxLack bounds what is said of one host, in characters: kubectl shows all warnings.
const maxLack = 300

// wish is what a machine asks of the hardware.
type wish struct {
	architecture string
	least        v1beta2.HardwareMinimum
	hints        *v1beta2.RootDeviceHints
	raid         *v1beta2.SoftwareRAID
	network      *v1beta2.NetworkData
}

func wishOf(spec v1beta2.IngotMachineSpec) wish {
	out := wish{hints: spec.RootDeviceHints, raid: spec.SoftwareRAID, network: spec.NetworkData}
	if s := spec.HostSelector; s != nil {
		out.architecture = s.Arch
		if s.Minimum != nil {
			out.least = *s.Minimum
		}
	}
	return out
}

func (w wish) empty() bool {
	return w.architecture == "" && w.hints == nil && w.raid == nil && w.network == nil && w.least == v1beta2.HardwareMinimum{}
}

// built is the best that hosts have, each figure by itself, and whether one of them
// has everything asked for.
type built struct {
	// known counts the hosts whose hardware is known.
	known                  int
	cores, memoryGiB, disk int64
	architecture, rootDisk bool
	// unmet hints of a machine hold for no disk of any host.
	unmet      []inventory.UnmetHint
	interfaces fitting
	all        bool
}

// hardware warns of what no host that the selector matches is built with. Hosts that
// are not inspected yet say nothing. path leads to spec.
func (o Outlook) hardware(ctx context.Context, in scope, path *field.Path, spec v1beta2.IngotMachineSpec) []string {
	wish := wishOf(spec)
	if wish.empty() {
		return nil
	}
	best, err := o.best(ctx, in, wish)
	if err != nil || best.known == 0 || best.all {
		return nil
	}
	var warnings []string
	warn := func(where fmt.Stringer, format string, arguments ...any) {
		warnings = append(warnings, fmt.Sprintf("%s: none of the %d inspected hosts has %s; correct it, or register such hosts, until then its machines wait",
			where, best.known, fmt.Sprintf(format, arguments...)))
	}
	chosen := path.Child("hostSelector")
	if !best.architecture {
		warn(chosen.Child("arch"), "architecture %q", wish.architecture)
	}
	if n := wish.least.Cores; n != nil && int64(*n) > best.cores {
		warn(chosen.Child("minimum", "cores"), "%d cores, the most are %d", *n, best.cores)
	}
	if n := wish.least.MemoryGiB; n != nil && *n > best.memoryGiB {
		warn(chosen.Child("minimum", "memoryGiB"), "%d GiB, the most are %d", *n, best.memoryGiB)
	}
	switch n := wish.least.DiskGB; {
	case !best.rootDisk && wish.raid != nil:
		warn(path.Child("softwareRAID"), "two disks that it could be made of")
	case !best.rootDisk && len(best.unmet) > 0:
		for _, h := range best.unmet {
			warn(hinted(path.Child("rootDeviceHints"), h), "a disk for which it holds")
		}
	case !best.rootDisk && wish.hints != nil:
		warn(path.Child("rootDeviceHints"), "a disk that they choose")
	case n != nil && *n > best.disk:
		warn(chosen.Child("minimum", "diskGB"), "a root disk of %d GB, the most are %d", *n, best.disk)
	}
	ethernets := path.Child("networkData", "ethernets")
	strays, settled := o.strays(ctx, in, ethernets, wish.network, best.interfaces.missing())
	warnings = append(warnings, strays...)
	best.interfaces.tell(ethernets, wish.network, settled, warn)
	if len(warnings)+len(settled) == 0 {
		warn(path, "all that hostSelector, rootDeviceHints and networkData ask for, though each part is there")
	}
	return warnings
}

// best looks at every host that the selector matches.
func (o Outlook) best(ctx context.Context, in scope, wish wish) (built, error) {
	all, err := o.candidates(ctx, in)
	if err != nil {
		return built{}, err
	}
	var best built
	for _, candidate := range all {
		if inventory.Inspected(candidate.Hardware) {
			best.add(candidate, wish)
		}
	}
	return best, nil
}

func (o Outlook) candidates(ctx context.Context, in scope) ([]allocation.Candidate, error) {
	hosts, hardware := &v1beta2.IngotHostList{}, &v1beta2.IngotHardwareList{}
	err := o.Reader.List(ctx, hosts, client.InNamespace(in.namespace), client.MatchingLabelsSelector{Selector: in.selector}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, err
	}
	if err := o.Reader.List(ctx, hardware, client.InNamespace(in.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	return allocation.Candidates(hosts.Items, hardware.Items), nil
}

func (b *built) add(candidate allocation.Candidate, wish wish) {
	facts := candidate.Hardware.Spec
	hints := wish.hints
	if hints == nil {
		hints = candidate.Host.Spec.RootDeviceHints
	}
	rootDisks, err := inventory.SelectRootDisks(facts.Disks, hints, wish.raid)
	bytes := inventory.RootBytes(rootDisks)
	architecture := wish.architecture == "" || wish.architecture == facts.Architecture
	misfits := networkdata.Misfits(wish.network, networkdata.Host{BootMAC: candidate.Host.Spec.BootMACAddress, NICs: facts.NICs})
	b.interfaces.add(candidate.Host.Name, misfits)
	cores, memory := int64(facts.CPU.Cores), inventory.MemoryGiB(facts.MemoryBytes)
	least := wish.least
	if b.known == 0 || len(b.unmet) > 0 {
		b.keepUnmet(inventory.UnmetHints(facts.Disks, wish.hints))
	}
	b.known++
	b.cores, b.memoryGiB, b.disk = max(b.cores, cores), max(b.memoryGiB, memory), max(b.disk, bytes/bytesPerGB)
	b.architecture = b.architecture || architecture
	b.rootDisk = b.rootDisk || err == nil
	b.all = b.all || architecture && err == nil && len(misfits) == 0 &&
		(least.Cores == nil || cores >= int64(*least.Cores)) &&
		(least.MemoryGiB == nil || memory >= *least.MemoryGiB) &&
		(least.DiskGB == nil || bytes >= *least.DiskGB*bytesPerGB)
}

// keepUnmet keeps the hints that another host does not meet either.
func (b *built) keepUnmet(unmet []inventory.UnmetHint) {
	if b.known == 0 {
		b.unmet = unmet
		return
	}
	b.unmet = slices.DeleteFunc(b.unmet, func(h inventory.UnmetHint) bool {
		return !slices.ContainsFunc(unmet, func(other inventory.UnmetHint) bool { return other.Field == h.Field })
	})
}

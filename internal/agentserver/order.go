// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// giveOrder tells the agent what to do, from a live read of the host (I5).
func (s *Server) giveOrder(r *http.Request, c caller, _ agentapi.OrderRequest) (agentapi.Order, *agentapi.Error) {
	if c.isStranger() {
		return strangerOrder(c), nil
	}
	host, refusal := s.holder(r.Context(), c, "")
	if refusal != nil {
		return agentapi.Order{}, refusal
	}
	order, refusal := s.orderOf(r.Context(), host)
	if refusal != nil {
		return agentapi.Order{}, refusal
	}
	return order, nil
}

func (s *Server) orderOf(ctx context.Context, host *infrav1.IngotHost) (agentapi.Order, *agentapi.Error) {
	order, claim := host.Spec.Order, host.Spec.Claim
	out := agentapi.Order{Kind: agentapi.OrderKind(order.Kind), ID: order.ID, Attempt: order.Attempt}
	if claim != nil {
		out.InstanceID = claim.InstanceID
	}
	switch order.Kind {
	case infrav1.OrderInspect:
		return out, nil
	case infrav1.OrderInstall:
		if claim.RootDisk == nil {
			return agentapi.Order{}, orderGone("no disk was chosen to install to")
		}
		// The last look before a disk is written: the machine itself must name this
		// host and this instance (I1, I5).
		if _, err := s.claimant(ctx, host); err != nil {
			s.Log.Error(err, "Could not confirm the machine of a claim", "host", client.ObjectKeyFromObject(host).String())
			return agentapi.Order{}, notReady("the machine of the claim does not confirm the install")
		}
		out.Attempt = claim.Attempt
		out.Install = installOrder(host)
		return out, nil
	case infrav1.OrderWipe:
		wipe, refusal := s.wipeOrder(ctx, host)
		if refusal != nil {
			return agentapi.Order{}, refusal
		}
		out.Wipe = wipe
		return out, nil
	}
	return agentapi.Order{}, orderGone("the order is of an unknown kind")
}

// installOrder says what the host that a claim holds is provisioned with.
func installOrder(host *infrav1.IngotHost) *agentapi.InstallOrder {
	claim := host.Spec.Claim
	order := &agentapi.InstallOrder{
		RootDisk:          inventory.AgentDiskRef(*claim.RootDisk),
		MirrorDisks:       mirrorDisks(claim),
		ReleasedInstances: lifecycle.ReleasedInstances(host),
		RejectedAttempts:  claim.RejectedAttempts,
	}
	if live := claim.Live; live != nil {
		order.Checksum = needsNewerAgent
		order.Live = &agentapi.LiveOrder{Kernel: liveFile(live.Kernel), Initrd: liveFile(live.Initrd)}
		return order
	}
	order.ImageURL, order.Checksum, order.Format = ImagePath(claim.Image.Checksum), claim.Image.Checksum, string(claim.Image.Format)
	return order
}

// mirrorDisks are the members of a software RAID beside the root disk.
func mirrorDisks(claim *infrav1.HostClaim) []agentapi.DiskRef {
	var refs []agentapi.DiskRef
	for _, ref := range claim.MirrorDisks {
		refs = append(refs, inventory.AgentDiskRef(ref))
	}
	return refs
}

// needsNewerAgent stands where an image's checksum would. An agent that is too old to know
// of live systems, as on signed or own boot media, refuses the order by it before it looks
// at a disk, and so says in its report what is wrong.
const needsNewerAgent = "newer-agent-needed"

func liveFile(file infrav1.LiveFile) agentapi.LiveFile {
	return agentapi.LiveFile{URL: ImagePath(file.Checksum), Checksum: file.Checksum}
}

// ImagePath is where the boot server's cache serves the image with this checksum,
// relative to the boot server that the agent was booted from.
func ImagePath(checksum string) string {
	_, digest, _ := strings.Cut(checksum, ":")
	return "/images/" + digest
}

// cleaningOf says how the host is to be cleaned now.
func cleaningOf(host *infrav1.IngotHost) infrav1.CleaningMode {
	if host.Spec.Claim != nil {
		return lifecycle.ReleaseCleaning(host.Spec.Claim)
	}
	if host.Spec.Record != nil && host.Spec.Record.CleaningDue != "" {
		return host.Spec.Record.CleaningDue
	}
	return infrav1.CleaningMetadata
}

// wipeOrder names all disks that the agent has just found, among which are all that were
// known before (see missingDisks): every mode covers every disk of the host. Where disks
// have modes of their own the strictest is said to be that of all: an agent that is too
// old to read them then refuses, or does more than it was asked to.
func (s *Server) wipeOrder(ctx context.Context, host *infrav1.IngotHost) (*agentapi.WipeOrder, *agentapi.Error) {
	hardware := &infrav1.IngotHardware{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), hardware); err != nil {
		return nil, notReady("the hardware facts are not there yet")
	}
	mode := cleaningOf(host)
	order := &agentapi.WipeOrder{Mode: string(mode), ReleasedInstances: lifecycle.ReleasedInstances(host)}
	refs := inventory.DiskRefsOf(hardware.Spec.Disks)
	for i, disk := range hardware.Spec.Disks {
		order.Disks = append(order.Disks, inventory.AgentDiskRef(refs[i]))
		if len(host.Spec.DiskCleaning) > 0 {
			order.Modes = append(order.Modes, string(lifecycle.CleaningOfDisk(disk, mode, host.Spec.DiskCleaning)))
		}
	}
	if slices.Contains(order.Modes, agentapi.WipeFull) {
		order.Mode = agentapi.WipeFull
	}
	if last := lastInstance(host); last != "" {
		order.JournalKey = agentapi.Sensitive(s.Keys.JournalKey(host.Namespace, host.Name, last))
	}
	return order, nil
}

// lastInstance is the one whose traces a wipe removes: that of the claim, and once the
// claim has gone by a quarantine, that of the record.
func lastInstance(host *infrav1.IngotHost) string {
	if host.Spec.Claim != nil {
		return host.Spec.Claim.InstanceID
	}
	if host.Spec.Record != nil {
		return host.Spec.Record.LastInstanceID
	}
	return ""
}

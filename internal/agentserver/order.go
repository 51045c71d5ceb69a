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

// getOrder returns the agent's order, from a live read of the host (I5).
func (s *Server) getOrder(r *http.Request, c caller, _ agentapi.OrderRequest) (agentapi.Order, *agentapi.Error) {
	if c.isUnknownClient() {
		return agentapi.Order{Kind: agentapi.Discover, ID: c.claims.OrderID}, nil
	}
	host, refusal := s.sessionHost(r.Context(), c, "")
	if refusal != nil {
		return agentapi.Order{}, refusal
	}
	return s.orderOf(r.Context(), host)
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
		// The last check before a disk is written: the machine itself must name this host and
		// this instance (I1, I5).
		if _, err := s.claimingMachine(ctx, host); err != nil {
			return agentapi.Order{}, s.unavailable(err, "confirm the machine that claims the host", client.ObjectKeyFromObject(host))
		}
		out.Attempt = claim.Attempt
		out.Install = installOrder(host)
		return out, nil
	case infrav1.OrderClean:
		wipe, refusal := s.wipeOrder(ctx, host)
		if refusal != nil {
			return agentapi.Order{}, refusal
		}
		out.Clean = wipe
		return out, nil
	}
	return agentapi.Order{}, orderGone("the order is of an unknown kind")
}

// installOrder returns what to install on the claimed host.
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
	order.ImageURL, order.Checksum, order.Format = imagePath(claim.Image.Checksum), claim.Image.Checksum, string(claim.Image.Format)
	return order
}

// mirrorDisks returns the members of a software RAID other than the root disk.
func mirrorDisks(claim *infrav1.HostClaim) []agentapi.DiskRef {
	var refs []agentapi.DiskRef
	for _, ref := range claim.MirrorDisks {
		refs = append(refs, inventory.AgentDiskRef(ref))
	}
	return refs
}

// needsNewerAgent replaces an image's checksum. An agent that is too old for live systems, for
// example from signed or custom boot media, rejects the checksum before it touches a disk, and
// names it in its report.
const needsNewerAgent = "newer-agent-needed"

func liveFile(file infrav1.LiveFile) agentapi.LiveFile {
	return agentapi.LiveFile{URL: imagePath(file.Checksum), Checksum: file.Checksum}
}

// imagePath returns the path under which the boot server that booted the agent serves the image.
func imagePath(checksum string) string {
	_, digest, _ := strings.Cut(checksum, ":")
	return "/images/" + digest
}

// cleaningOf returns how the host is to be cleaned now.
func cleaningOf(host *infrav1.IngotHost) infrav1.CleaningMode {
	if host.Spec.Claim != nil {
		return lifecycle.ReleaseCleaning(host.Spec.Claim)
	}
	if host.Spec.Record != nil && host.Spec.Record.CleaningDue != "" {
		return host.Spec.Record.CleaningDue
	}
	return infrav1.CleaningMetadata
}

// wipeOrder returns an order for all disks that the agent has found, which include all known disks
// (see missingDisks). If disks have different modes, the order's mode is the strictest: an agent
// that is too old for modes per disk then refuses, or cleans more than needed.
func (s *Server) wipeOrder(ctx context.Context, host *infrav1.IngotHost) (*agentapi.CleanOrder, *agentapi.Error) {
	hardware := &infrav1.IngotHardware{}
	if err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), hardware); err != nil {
		return nil, s.unavailable(err, "read the hardware facts", client.ObjectKeyFromObject(host))
	}
	mode := cleaningOf(host)
	order := &agentapi.CleanOrder{Mode: string(mode), ReleasedInstances: lifecycle.ReleasedInstances(host)}
	refs := inventory.DiskRefsOf(hardware.Spec.Disks)
	for i, disk := range hardware.Spec.Disks {
		order.Disks = append(order.Disks, inventory.AgentDiskRef(refs[i]))
		if len(host.Spec.DiskCleaning) > 0 {
			order.Modes = append(order.Modes, string(lifecycle.CleaningOfDisk(disk, mode, host.Spec.DiskCleaning)))
		}
	}
	if slices.Contains(order.Modes, agentapi.CleanFull) {
		order.Mode = agentapi.CleanFull
	}
	if last := lastInstance(host); last != "" {
		order.JournalKey = agentapi.Sensitive(s.Keys.JournalKey(host.Namespace, host.Name, last))
	}
	return order, nil
}

// lastInstance returns the instance whose traces a wipe removes: that of the claim or, if a
// quarantine has ended the claim, that of the record.
func lastInstance(host *infrav1.IngotHost) string {
	if host.Spec.Claim != nil {
		return host.Spec.Claim.InstanceID
	}
	if host.Spec.Record != nil {
		return host.Spec.Record.LastInstanceID
	}
	return ""
}

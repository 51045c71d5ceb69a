// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// The conditions of the rules: one fact each.

func (in *input) deleting() bool  { return in.obs.Deleting }
func (in *input) staying() bool   { return !in.obs.Deleting }
func (in *input) unmanaged() bool { return in.host.Spec.BMC == nil }
func (in *input) duplicate() bool { return in.obs.DuplicateOf != "" }

func (in *input) bmcProblem() bool { return in.obs.BMC != BMCOK }
func (in *input) on() bool         { return in.obs.Power == infrav1.PowerStateOn }
func (in *input) off() bool        { return in.obs.Power == infrav1.PowerStateOff }
func (in *input) powerUnknown() bool {
	return !in.on() && !in.off()
}

// commanded reports whether an operator gave that command, it was not carried out yet, and
// its time is right (I24).
func (in *input) commanded(name string) bool {
	c, pending := inventory.PendingCommand(in.host, name)
	return pending && in.refusedByTime(c) == ""
}

// refusedByTime says why the command is not carried out because of its time. Where the time
// now is not known, it is not judged.
func (in *input) refusedByTime(c inventory.Command) string {
	if in.obs.Now.IsZero() {
		return ""
	}
	return c.Refused(in.obs.Now, in.obs.ListeningSince)
}
func (in *input) forced() bool          { return in.commanded(infrav1.ForceReleaseAnnotation) }
func (in *input) releaseDangling() bool { return in.commanded(infrav1.ReleaseDanglingAnnotation) }
func (in *input) cleared() bool         { return in.commanded(infrav1.ClearQuarantineAnnotation) }
func (in *input) approved() bool        { return in.commanded(infrav1.ApproveAnnotation) }
func (in *input) inspectAsked() bool    { return in.commanded(infrav1.InspectAnnotation) }
func (in *input) rebootAsked() bool     { return in.commanded(infrav1.RebootAnnotation) }

func (in *input) wantedOff() bool { return in.host.Spec.Power == infrav1.PowerIntentOff }
func (in *input) wantedOn() bool  { return in.host.Spec.Power == infrav1.PowerIntentOn }
func (in *input) maintenance() bool {
	return in.host.Spec.Maintenance != nil && *in.host.Spec.Maintenance
}

// The claim.

func (in *input) claimed() bool { return in.claim != nil }
func (in *input) free() bool    { return in.claim == nil }
func (in *input) state(s infrav1.ClaimState) bool {
	return in.claim != nil && in.claim.State == s
}
func (in *input) provisioning() bool { return in.state(infrav1.ClaimProvisioning) }
func (in *input) provisioned() bool  { return in.state(infrav1.ClaimProvisioned) }
func (in *input) releasing() bool    { return in.state(infrav1.ClaimReleasing) }

// held: a machine's, and not being released.
func (in *input) held() bool { return in.claimed() && !in.releasing() }

// notRunning: there is no provisioned system here that could be rebooted.
func (in *input) notRunning() bool { return !in.provisioned() || in.off() }

func (in *input) machineMissing() bool { return in.obs.Machine == MachineMissing }
func (in *input) machineUnknown() bool { return in.obs.Machine == MachineUnknown }

func (in *input) fenced() bool    { return in.claim != nil && !in.claim.FencedAt.IsZero() }
func (in *input) notFenced() bool { return !in.fenced() }

// nothingToClean: no install order was ever written for this claim, or its
// cleaning mode says to leave the disks alone.
func (in *input) nothingToClean() bool {
	return in.claim != nil && (in.claim.Attempt == 0 || ReleaseCleaning(in.claim) == infrav1.CleaningNone)
}

// The record.

func (in *input) inspected() bool {
	return in.record != nil && !in.record.InspectedAt.IsZero()
}

// factsMissing: the host was inspected, and what was found is lost.
func (in *input) factsMissing() bool { return in.inspected() && in.obs.FactsMissing }

func (in *input) cleaningDue() bool {
	return in.record != nil && in.record.CleaningDue != "" && in.record.CleaningDue != infrav1.CleaningNone
}
func (in *input) quarantined() bool {
	return in.claim == nil && in.record != nil && in.record.Quarantine != nil
}

// keepsQuarantine: the host was taken out of service since its installs failed, or since its
// cleaning did, and no person has said that this is seen to. A server that is deleted and
// registered again, as by kubectl replace --force, would be as good as new.
func (in *input) keepsQuarantine() bool {
	if !in.quarantined() || in.cleared() {
		return false
	}
	reason := in.record.Quarantine.Reason
	return reason == infrav1.QuarantineInstallFailed || reason == infrav1.QuarantineWipeFailed && in.cleaningDue()
}
func (in *input) quarantinedNotFenced() bool {
	return in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineNotFenced
}
func (in *input) failuresCounted() bool { return in.record != nil && in.record.Failures > 0 }

// idleHost: free, known, and nothing is due to it.
func (in *input) idleHost() bool { return in.resting() && !in.preparationDue() }

// idleOtherwise: but for its order the host would be one to which nothing is due, and
// may be put to work.
func (in *input) idleOtherwise() bool {
	return in.free() && in.inspected() && !in.cleaningDue() && !in.quarantined() && !in.maintenance() && !in.wantedOff()
}

// expectedOn: a known host that a person wants on.
func (in *input) expectedOn() bool { return in.record != nil && in.wantedOn() }

// The order.

func (in *input) ordered() bool   { return in.order != nil }
func (in *input) unordered() bool { return in.order == nil }

// misfit: the order is not what the ledger asks for; an install of a machine that
// is being deleted, for example, or what another management cluster had begun. Nor is
// one whose boot comes to nothing.
func (in *input) misfit() bool {
	if in.foreign() || in.misplaced() {
		return true
	}
	switch in.order.Kind {
	case infrav1.OrderInstall:
		return !in.provisioning()
	case infrav1.OrderWipe:
		return !(in.releasing() && in.fenced()) && !(in.free() && in.cleaningDue() && !in.quarantined())
	default:
		return in.claimed() || in.quarantined()
	}
}

// foreign: the order was written for an object that this one replaced, in a move or
// a restore, and has not ended. Whoever works on it does not answer to us: the work
// starts again from power-off (I10). What has ended stands, whoever it was for.
func (in *input) foreign() bool { return !in.ended() && OrderIsForeign(in.host) }

// misplaced: the order was written for a boot on another network, or by another NIC,
// than the spec names now, and no agent has spoken: nothing would answer that boot, and
// the host would hold the address until the deadline. An agent that has spoken does its
// work wherever it is.
func (in *input) misplaced() bool {
	order, spec := in.order, in.host.Spec
	return !in.ended() && !in.contacted() &&
		(order.NetworkName != "" && order.NetworkName != spec.NetworkRef.Name ||
			order.BootMACAddress != "" && order.BootMACAddress != spec.BootMACAddress)
}

// OrderIsForeign says whether the host's order was written for another object of
// its name, before a move or a restore. No agent may act on it.
func OrderIsForeign(host *infrav1.IngotHost) bool {
	order := host.Spec.Order
	return order != nil && order.HostUID != "" && order.HostUID != string(host.UID)
}

func (in *input) revoked() bool { return in.order.Revoked != nil && *in.order.Revoked }

// ended: nothing more is expected of the agent (I14, or it has reported).
func (in *input) ended() bool { return in.revoked() || in.order.Result != nil }

// contacted: an agent has taken the order.
func (in *input) contacted() bool { return in.order.AgentKey != "" }

// untaken: no agent has; a server that is on may be on by a person's hand.
func (in *input) untaken() bool { return !in.contacted() }

// speaking: the agent spoke so short a time ago that a BMC which says that the
// host is off is not believed yet.
func (in *input) speaking() bool {
	return !in.ended() && in.contacted() &&
		in.obs.Now.Before(in.obs.LastContact.Add(in.policy.ResetInterval))
}

// neverOn: booted, and off until the deadline. What its BMC would not switch on was not
// booted, and is not the host's failure. A manager that was started since does not know of
// the tries before, and gives its own the time.
func (in *input) neverOn() bool {
	since := in.obs.BootTakenAt
	return !since.IsZero() && !in.obs.Now.Before(since.Add(in.policy.AgentDeadline))
}

// bootDoubted: the last switch was a moment ago, and was the boot, since it was not
// after the agent's report; so the BMC may still tell the state before it.
func (in *input) bootDoubted() bool {
	switchedSince := in.order.Result != nil && in.obs.LastReset.After(in.order.Result.At.Time)
	return in.tooSoon() && !switchedSince
}

// failed: with the host off, there is nothing left to wait for.
func (in *input) failed() bool { return in.ended() || in.contacted() || in.neverOn() }

func (in *input) succeeded() bool {
	return !in.revoked() && in.order.Result != nil && in.order.Result.Outcome == infrav1.OrderSucceeded
}

// liveStopped: a live system was started, the host is off, and nobody has said more.
func (in *input) liveStopped() bool { return !in.ended() && in.liveStarted() }

// offIsNews: the BMC has not said off before this time, or only a moment before. Nobody
// speaks for minutes while a live system starts, so that one wrong word would have it reset,
// and whatever else wakes the controller would have the same word read twice.
func (in *input) offIsNews() bool {
	return in.host.Status.Power != infrav1.PowerStateOff || in.obs.OffUnsure
}

// liveStopIsNews: both. The order of such a system is not dropped by one wrong word either.
func (in *input) liveStopIsNews() bool { return in.liveStopped() && in.offIsNews() }

// liveStarted: the agent had done all that a live system needs of the host.
func (in *input) liveStarted() bool { return !in.order.LiveStartedAt.IsZero() }

// networkToBlame: nobody on the network was heard.
func (in *input) networkToBlame() bool {
	return !in.revoked() && in.order.Result != nil && in.order.Result.Reason == infrav1.ReasonNetworkSilent
}

// imageToBlame: the install failed for a reason that would be the same on any host, or that
// lies in the choice of a host or of disks that are good each (see refusedByHost).
func (in *input) imageToBlame() bool {
	if in.revoked() || in.order.Kind != infrav1.OrderInstall || in.order.Result == nil || in.order.Result.Outcome != infrav1.OrderFailed {
		return false
	}
	switch in.order.Result.Reason {
	case agentapi.FailureImageUnavailable, agentapi.FailureImageInvalid, agentapi.FailureChecksumMismatch,
		agentapi.FailureLiveRefused, agentapi.FailureMirrorRefused, agentapi.FailureDiskTooSmall, agentapi.FailureSectorsDiffer, agentapi.FailureOldSystem,
		infrav1.ReasonLiveSystemSilent:
		return true
	}
	return false
}

// BlamesNoHost reports whether the host's order failed for a reason that Ingot does not count
// against the host: its network or its image. The host must have a claim and an order.
func BlamesNoHost(host *infrav1.IngotHost) bool {
	in := &input{host: host, claim: host.Spec.Claim, record: host.Spec.Record, order: host.Spec.Order}
	return in.networkToBlame() || in.imageToBlame()
}

// imageTooSoon: the image is not tried again yet.
func (in *input) imageTooSoon() bool { return in.obs.Now.Before(in.imageAt()) }

func (in *input) isInspect() bool { return in.order.Kind == infrav1.OrderInspect }
func (in *input) isWipe() bool    { return in.order.Kind == infrav1.OrderWipe }

// attemptsLeft: installs and inspections are counted over claims, so that a
// broken host is not handed out again and again; wipes within their order.
func (in *input) attemptsLeft() bool {
	if in.isWipe() {
		return in.order.Attempt < in.policy.MaxAttempts
	}
	return in.failures()+1 < in.policy.MaxAttempts
}

// contactForgotten: nothing is known of this boot, neither when it was started nor
// when its agent spoke. An order of a time that is still to come was written before the
// clock was set back, and so were they: what is known since is of this boot.
func (in *input) contactForgotten() bool {
	created := in.order.CreatedAt.Time
	if created.After(in.obs.Now) {
		return in.obs.LastReset.IsZero() && in.obs.LastContact.IsZero()
	}
	return in.obs.LastReset.Before(created) && in.obs.LastContact.Before(created)
}
func (in *input) silent() bool { return !in.obs.Now.Before(in.silentAt()) }

// Switching.

// tooSoon: the host was switched a moment ago (I13).
func (in *input) tooSoon() bool { return in.obs.Now.Before(in.switchableAt()) }

// softAsked: the operating system was asked to shut down; softPending: and has time left.
func (in *input) softAsked() bool   { return !in.obs.SoftOffAt.IsZero() }
func (in *input) softPending() bool { return in.softAsked() && in.obs.Now.Before(in.cutAt()) }

// softOver: it was asked, or its BMC would not ask for as long as it would have had.
func (in *input) softOver() bool { return in.softAsked() || in.obs.AskRefused }

// offDoubted: the host was switched a moment ago, perhaps on, and BMCs tell the old
// state for some seconds (field notes: 15 s). When the last switch was a request
// to shut down, off is news and is believed.
func (in *input) offDoubted() bool {
	lastWasSoftOff := in.softAsked() && !in.obs.SoftOffAt.Before(in.obs.LastReset)
	return in.tooSoon() && !lastWasSoftOff
}

// Prerequisites of a boot.

func (in *input) wrongServer() bool { return in.obs.WrongServer != "" }
func (in *input) macMissing() bool  { return in.obs.BootMACMissing }
func (in *input) networkMissing() bool {
	return in.obs.NetworkMissing || in.obs.NetworkRefused != ""
}
func (in *input) addressProblem() bool { return in.obs.AddressProblem != "" && !in.obs.AddressRecorded }
func (in *input) addressMissing() bool { return !in.obs.AddressRecorded }

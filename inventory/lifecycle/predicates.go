// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// The conditions of the rules. Each tests one fact.

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

// commanded reports whether an operator gave the command, and Ingot may and did not yet carry
// it out (I24).
func (in *input) commanded(name string) bool {
	c, pending := inventory.PendingCommand(in.host, name)
	return pending && in.refusedByTime(c) == ""
}

// refusedByTime returns why the command's time prevents it. Empty: it does not, or the present
// time is unknown.
func (in *input) refusedByTime(c inventory.Command) string {
	if in.obs.Now.IsZero() {
		return ""
	}
	return c.RefusedBecause(in.obs.Now, in.obs.ListeningSince)
}
func (in *input) forced() bool          { return in.commanded(infrav1.ForceReleaseAnnotation) }
func (in *input) releaseDangling() bool { return in.commanded(infrav1.ReleaseAnnotation) }
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

// held reports whether a machine has the host and does not release it.
func (in *input) held() bool { return in.claimed() && !in.releasing() }

// notRunning reports whether no installed system runs that could reboot.
func (in *input) notRunning() bool { return !in.provisioned() || in.off() }

func (in *input) machineMissing() bool { return in.obs.Machine == MachineMissing }
func (in *input) machineUnknown() bool { return in.obs.Machine == MachineUnknown }

func (in *input) fenced() bool    { return in.claim != nil && !in.claim.FencedTime.IsZero() }
func (in *input) notFenced() bool { return !in.fenced() }

// nothingToClean reports whether no install order was written for the claim, or its cleaning
// mode leaves the disks alone.
func (in *input) nothingToClean() bool {
	return in.claim != nil && (in.claim.Attempt == 0 || ReleaseCleaning(in.claim) == infrav1.CleaningNone)
}

// The record.

func (in *input) inspected() bool {
	return in.record != nil && !in.record.InspectedTime.IsZero()
}

// factsMissing reports whether the result of the inspection was lost.
func (in *input) factsMissing() bool { return in.inspected() && in.obs.FactsMissing }

func (in *input) cleaningDue() bool {
	return in.record != nil && in.record.CleaningDue != "" && in.record.CleaningDue != infrav1.CleaningNone
}
func (in *input) quarantined() bool {
	return in.claim == nil && in.record != nil && in.record.Quarantine != nil
}

// keepsQuarantine reports whether a quarantine after failed installs or a failed cleaning must
// prevent the deletion. A server that is deleted and registered again, as by kubectl replace
// --force, would otherwise lose its quarantine.
func (in *input) keepsQuarantine() bool {
	if !in.quarantined() || in.cleared() {
		return false
	}
	reason := in.record.Quarantine.Reason
	return reason == infrav1.QuarantineInstallFailed || reason == infrav1.QuarantineCleanFailed && in.cleaningDue()
}
func (in *input) quarantinedNotFenced() bool {
	return in.quarantined() && in.record.Quarantine.Reason == infrav1.QuarantineNotFenced
}
func (in *input) failuresCounted() bool { return in.record != nil && in.record.Failures > 0 }

// idleHost reports whether the host is free and inspected, and Ingot has nothing to do to it.
func (in *input) idleHost() bool { return in.idleExceptPreparation() && !in.preparationDue() }

// idleExceptOrder reports whether the host would be idle and usable if it had no order.
func (in *input) idleExceptOrder() bool {
	return in.free() && in.inspected() && !in.cleaningDue() && !in.quarantined() && !in.maintenance() && !in.wantedOff()
}

// expectedOn reports whether spec.power requests that a known host is on.
func (in *input) expectedOn() bool { return in.record != nil && in.wantedOn() }

// The order.

func (in *input) ordered() bool   { return in.order != nil }
func (in *input) unordered() bool { return in.order == nil }

// misfit reports whether the order no longer fits the ledger: an install for a machine that is
// being deleted, an order of another management cluster, or one whose boot cannot succeed.
func (in *input) misfit() bool {
	if in.foreign() || in.misplaced() {
		return true
	}
	switch in.order.Kind {
	case infrav1.OrderInstall:
		return !in.provisioning()
	case infrav1.OrderClean:
		return !(in.releasing() && in.fenced()) && !(in.free() && in.cleaningDue() && !in.quarantined())
	default:
		return in.claimed() || in.quarantined()
	}
}

// foreign reports whether a running order was written for the object that this one replaced
// in a move or a restore. Its agent does not report here, so the work starts again from
// power-off (I10). The result of an ended order counts.
func (in *input) foreign() bool { return !in.ended() && OrderIsForeign(in.host) }

// misplaced reports whether the order was written for a boot on another network or NIC than
// the spec names now, and no agent has taken it. Such a boot gets no answer. An agent that has
// taken the order works from any network.
func (in *input) misplaced() bool {
	order, spec := in.order, in.host.Spec
	return !in.ended() && !in.contacted() &&
		(order.NetworkName != "" && order.NetworkName != spec.NetworkRef.Name ||
			order.BootMACAddress != "" && order.BootMACAddress != spec.BootMACAddress)
}

// OrderIsForeign reports whether the host's order was written for another object of its name,
// before a move or a restore. No agent may act on it.
func OrderIsForeign(host *infrav1.IngotHost) bool {
	order := host.Spec.Order
	return order != nil && order.HostUID != "" && order.HostUID != string(host.UID)
}

func (in *input) revoked() bool { return in.order.Revoked != nil && *in.order.Revoked }

// ended reports whether the order was revoked (I14) or has a result.
func (in *input) ended() bool { return in.revoked() || in.order.Result != nil }

// contacted reports whether an agent has taken the order.
func (in *input) contacted() bool { return in.order.AgentKey != "" }

// notContacted reports whether no agent has. An operator may have powered such a server on.
func (in *input) notContacted() bool { return !in.contacted() }

// agentActive reports whether the agent spoke within the last reset interval. A BMC that then
// reports off is not trusted yet.
func (in *input) agentActive() bool {
	return !in.ended() && in.contacted() &&
		in.obs.Now.Before(in.obs.LastContact.Add(in.policy.ResetInterval))
}

// neverOn reports whether the host stayed off until the deadline after a boot that its BMC
// accepted. A boot that the BMC refused is not the host's failure. After a restart of the
// manager the deadline starts again.
func (in *input) neverOn() bool {
	since := in.obs.BootAcceptedAt
	return !since.IsZero() && !in.obs.Now.Before(since.Add(in.policy.AgentDeadline))
}

// bootDoubted reports whether the last power action was the boot, within the reset interval:
// the BMC may still report the state before it.
func (in *input) bootDoubted() bool {
	switchedSince := in.order.Result != nil && in.obs.LastReset.After(in.order.Result.CompletionTime.Time)
	return in.tooSoon() && !switchedSince
}

// failed reports whether the order can no longer succeed while the host is off.
func (in *input) failed() bool { return in.ended() || in.contacted() || in.neverOn() }

func (in *input) succeeded() bool {
	return !in.revoked() && in.order.Result != nil && in.order.Result.Outcome == infrav1.OrderSucceeded
}

// liveStopped reports whether the order started a live system and has no result.
func (in *input) liveStopped() bool { return !in.ended() && in.liveStarted() }

// offUnconfirmed reports whether the BMC reports off for the first time, or did so only a
// moment ago. A live system is silent for minutes while it starts, so one wrong report must not
// cause a reset, even if the controller reads it twice.
func (in *input) offUnconfirmed() bool {
	return in.host.Status.Power != infrav1.PowerStateOff || in.obs.OffUnconfirmed
}

// liveStopUnconfirmed reports both. One wrong report must not drop the order of a live system.
func (in *input) liveStopUnconfirmed() bool { return in.liveStopped() && in.offUnconfirmed() }

// liveStarted reports whether the agent has started the live system.
func (in *input) liveStarted() bool { return !in.order.LiveStartTime.IsZero() }

// networkFailed reports whether all agents on the network were silent.
func (in *input) networkFailed() bool {
	return !in.revoked() && in.order.Result != nil && in.order.Result.Reason == infrav1.ReasonNetworkUnresponsive
}

// imageFailed reports whether the install failed for a reason that is the same on any host, or
// because a good image does not fit a good host (see refusedByHost).
func (in *input) imageFailed() bool {
	if in.revoked() || in.order.Kind != infrav1.OrderInstall || in.order.Result == nil || in.order.Result.Outcome != infrav1.OrderFailed {
		return false
	}
	switch in.order.Result.Reason {
	case agentapi.FailureImageUnavailable, agentapi.FailureImageInvalid, agentapi.FailureChecksumMismatch,
		agentapi.FailureLiveRefused, agentapi.FailureMirrorRefused, agentapi.FailureDiskTooSmall, agentapi.FailureSectorsDiffer, agentapi.FailureOldSystem,
		infrav1.ReasonLiveSystemUnresponsive:
		return true
	}
	return false
}

// IsNotHostFailure reports whether the host's order failed for a reason that Ingot does not count
// against the host: its network or its image. The host must have a claim and an order.
func IsNotHostFailure(host *infrav1.IngotHost) bool {
	in := inputOf(host)
	return in.networkFailed() || in.imageFailed()
}

func (in *input) imageRetryTooSoon() bool { return in.obs.Now.Before(in.imageRetryAt()) }

func (in *input) isInspect() bool { return in.order.Kind == infrav1.OrderInspect }
func (in *input) isWipe() bool    { return in.order.Kind == infrav1.OrderClean }

// attemptsLeft counts installs and inspections across claims, so that machines do not get a
// broken host again and again. It counts cleanings within one order.
func (in *input) attemptsLeft() bool {
	if in.isWipe() {
		return in.order.Attempt < in.policy.MaxAttempts
	}
	return in.failures()+1 < in.policy.MaxAttempts
}

// contactForgotten reports whether neither the time of this boot nor that of the agent's last
// contact is known. An order in the future was written before the clock was set back; then any
// known time is of this boot.
func (in *input) contactForgotten() bool {
	created := in.order.CreationTime.Time
	if created.After(in.obs.Now) {
		return in.obs.LastReset.IsZero() && in.obs.LastContact.IsZero()
	}
	return in.obs.LastReset.Before(created) && in.obs.LastContact.Before(created)
}
func (in *input) silent() bool { return !in.obs.Now.Before(in.silentAt()) }

// Power.

// tooSoon reports whether the last power action is less than the reset interval ago (I13).
func (in *input) tooSoon() bool { return in.obs.Now.Before(in.switchableAt()) }

// softAsked reports whether the system was asked to shut down; softPending, whether it still
// has time for that.
func (in *input) softAsked() bool   { return !in.obs.SoftOffAt.IsZero() }
func (in *input) softPending() bool { return in.softAsked() && in.obs.Now.Before(in.cutAt()) }

// softOver reports whether the shutdown took too long, or the BMC refused it for as long.
func (in *input) softOver() bool { return in.softAsked() || in.obs.ShutdownRefused }

// offDoubted reports whether a report of off may be old: BMCs report the state before a power
// action for some seconds (field notes: 15 s). After a shutdown request, off is new.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"os"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/site"
)

// What becomes of a host between the snapshot and its restore.
type ending int

const (
	// sameTenant: the machine that has the host in the snapshot runs on it.
	sameTenant ending = iota
	// nextTenant: the host became free, and another machine runs on it.
	nextTenant
	// handedOver: the machine of the snapshot ran on it first, and was deleted.
	handedOver
)

// A state is one that a host has in the snapshot.
type state struct {
	name string
	// early is done before the host is registered.
	early func(*drill, *state)
	// tenant: a machine runs on the host before bring.
	tenant bool
	// bring begins to bring the host to the state, and reached reports what lacks for it.
	bring   func(*drill, *state)
	reached func(*drill, *state, *infrav1.IngotHost) string
	// resume lets the world go on.
	resume func(*drill, *state)
	ends   ending
	// phase, and reason of the condition (Ready where it is empty), after the restore.
	phase     infrav1.IngotHostPhase
	condition string
	reason    string
	// restarts: the server restarts by itself as soon as the managers are back.
	restarts bool
	// dark: the server has lost its power when etcd is restored in place.
	dark bool
	// later is what others do to the restored host, and laterPhase and laterReason what it
	// leads to; nil: nothing.
	later       func(*drill, *state)
	laterPhase  infrav1.IngotHostPhase
	laterReason string

	// host has the state; the drill sets it.
	host string
	mark mark
}

// states are all of the drill. Each has a server of its own.
func states() []*state {
	all := []*state{
		{name: "registering", early: hang, reached: phaseIs(infrav1.PhaseRegistering), resume: heal, ends: nextTenant,
			phase: infrav1.PhaseRegistering, reason: infrav1.ReasonPoweredOnUnexpectedly},
		{name: "inspecting", early: armed(server.StepProbe), reached: holdsOrder(infrav1.OrderInspect), resume: open, ends: nextTenant,
			phase: infrav1.PhaseInspecting, reason: infrav1.ReasonStateUnconfirmed, later: switchOff, laterPhase: infrav1.PhaseAvailable, laterReason: infrav1.ReasonAvailable},
		{name: "inspecting, restarts", early: armed(server.StepProbe), reached: holdsOrder(infrav1.OrderInspect), resume: open, ends: nextTenant, restarts: true,
			phase: infrav1.PhaseInspecting, reason: infrav1.ReasonStateUnconfirmed},
		{name: "preparing", bring: prepare, reached: phaseIs(infrav1.PhasePreparing), resume: heal, ends: nextTenant,
			phase: infrav1.PhasePreparing, reason: infrav1.ReasonPoweredOnUnexpectedly},
		{name: "available", reached: phaseIs(infrav1.PhaseAvailable), ends: nextTenant,
			phase: infrav1.PhaseAvailable, reason: infrav1.ReasonPoweredOnUnexpectedly},
	}
	all = append(all, installStates()...)
	all = append(all, tenantStates()...)
	return append(all, commandStates()...)
}

// installStates are the steps of an install. The same machine runs on the host when etcd is
// restored, and its Node reports; or another does.
func installStates() []*state {
	step := func(name string, at server.Step, reached func(*drill, *state, *infrav1.IngotHost) string) *state {
		return &state{name: name, bring: func(d *drill, s *state) { d.holds.arm(s.host, at); d.claim(s) }, reached: reached, resume: open,
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned}
	}
	next := func(s *state) *state {
		s.ends, s.phase, s.reason = handedOver, infrav1.PhaseProvisioning, infrav1.ReasonStateUnconfirmed
		return s
	}
	dark := step("agent running, loses its power", server.StepWrite, holdsOrder(infrav1.OrderInstall))
	dark.dark = true
	restarts := next(step("installing, then another's, restarts", server.StepWrite, holdsOrder(infrav1.OrderInstall)))
	restarts.restarts = true
	return []*state{
		{name: "claimed", bring: claimBlindly, resume: heal,
			reached: func(_ *drill, _ *state, h *infrav1.IngotHost) string {
				return lacks(h.Spec.Claim != nil && h.Spec.Order == nil, "it is not claimed, or has an order")
			},
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned},
		{name: "ordered", bring: func(d *drill, s *state) { d.fault(s, readOnly); d.claim(s) }, resume: heal,
			reached: func(d *drill, s *state, h *infrav1.IngotHost) string {
				return lacks(h.Spec.Claim != nil && h.Spec.Order != nil && !d.server(s).Powered(), "it has no order to install, or is on")
			},
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned},
		step("agent running", server.StepWrite, holdsOrder(infrav1.OrderInstall)),
		step("image verified", server.StepSeed, holdsOrder(infrav1.OrderInstall)),
		step("installed, not reported", server.StepReport, holdsOrder(infrav1.OrderInstall)),
		step("committed, booting", server.StepBoot, func(d *drill, s *state, h *infrav1.IngotHost) string {
			return lacks(d.holds.isHeld(s.host) && stateOf(h) == infrav1.ClaimProvisioned, "its install is not committed")
		}),
		next(step("installing, then another's", server.StepWrite, holdsOrder(infrav1.OrderInstall))),
		next(step("installed, not reported, then another's", server.StepReport, holdsOrder(infrav1.OrderInstall))),
		restarts, dark,
	}
}

// tenantStates are those of a host that a machine has, or had.
func tenantStates() []*state {
	releasing := func(s *state) *state {
		s.tenant, s.ends, s.phase, s.reason = true, nextTenant, infrav1.PhaseDeprovisioning, infrav1.ReasonStateUnconfirmed
		return s
	}
	return []*state{
		{name: "provisioned", tenant: true, reached: claimIs(infrav1.ClaimProvisioned), phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned},
		{name: "provisioned, then another's", tenant: true, reached: claimIs(infrav1.ClaimProvisioned), ends: handedOver,
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned,
			later: (*drill).release, laterPhase: infrav1.PhaseDeprovisioning, laterReason: infrav1.ReasonStateUnconfirmed},
		{name: "remediation", bring: ail, resume: func(d *drill, s *state) { d.holds.silence(s.host, false); heal(d, s) },
			reached: func(_ *drill, _ *state, h *infrav1.IngotHost) string {
				cycle := (*infrav1.ClaimPowerCycle)(nil)
				if h.Spec.Claim != nil {
					cycle = h.Spec.Claim.PowerCycle
				}
				return lacks(cycle != nil && cycle.State == infrav1.PowerCycleOff, "no power cycle is under way")
			},
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned},
		releasing(&state{name: "releasing, powering off", bring: (*drill).release, resume: cutPower,
			reached: func(d *drill, s *state, h *infrav1.IngotHost) string {
				return lacks(stateOf(h) == infrav1.ClaimReleasing && h.Spec.Claim.FencedTime.IsZero() && d.server(s).Powered() && !h.Status.SoftPowerOffTime.IsZero(), "it is not asked to shut down")
			}}),
		releasing(&state{name: "releasing, cleaning", bring: func(d *drill, s *state) { d.holds.arm(s.host, server.StepWrite); d.release(s) }, resume: open,
			reached: holdsOrder(infrav1.OrderClean)}),
		releasing(&state{name: "releasing, cleaned", bring: func(d *drill, s *state) { d.holds.arm(s.host, server.StepWrite); d.release(s) }, resume: heal,
			reached: cleaned}),
		releasing(&state{name: "released by force", bring: func(d *drill, s *state) { hang(d, s); d.release(s); d.command(s, infrav1.ForceReleaseAnnotation) }, resume: heal,
			reached: func(_ *drill, _ *state, h *infrav1.IngotHost) string {
				return lacks(h.Spec.Claim == nil && h.Spec.Record.Quarantine != nil, "it is not released by force")
			}}).in(infrav1.PhaseQuarantined, infrav1.ReasonStateUnconfirmed),
		{name: "quarantined", bring: failInstalls, ends: nextTenant, reached: phaseIs(infrav1.PhaseQuarantined),
			resume: func(d *drill, s *state) { d.command(s, infrav1.ClearQuarantineAnnotation) },
			phase:  infrav1.PhaseQuarantined, reason: infrav1.ReasonQuarantined},
		{name: "moved", bring: func(d *drill, _ *state) { d.pause(true) }, resume: func(d *drill, _ *state) { d.pause(false) },
			reached: func(_ *drill, _ *state, h *infrav1.IngotHost) string {
				return lacks(conditions.GetReason(h, infrav1.PausedCondition) == infrav1.ReasonMovePaused, "it is not paused")
			},
			phase: infrav1.PhaseProvisioned, condition: infrav1.PausedCondition, reason: infrav1.ReasonMovePaused,
			later: func(d *drill, _ *state) { d.pause(false) }, laterPhase: infrav1.PhaseProvisioned, laterReason: infrav1.ReasonProvisioned},
	}
}

// commandStates have a command that is not carried out when etcd is saved.
func commandStates() []*state {
	return []*state{
		{name: "approve pending", early: func(d *drill, s *state) { d.must(d.server(s).Simulated.Power(d.t.Context(), bmc.On)) },
			bring:   func(d *drill, s *state) { hang(d, s); d.command(s, infrav1.ApproveAnnotation) },
			reached: annotated(infrav1.ApproveAnnotation), resume: func(d *drill, s *state) { heal(d, s); cutPower(d, s) }, ends: nextTenant,
			phase: infrav1.PhaseRegistering, reason: infrav1.ReasonPoweredOnUnexpectedly},
		{name: "force-release pending", tenant: true, ends: nextTenant, reached: annotated(infrav1.ForceReleaseAnnotation),
			bring:  func(d *drill, s *state) { d.hook(s, true); d.release(s); d.command(s, infrav1.ForceReleaseAnnotation) },
			resume: func(d *drill, s *state) { d.hook(s, false) },
			phase:  infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned,
			later: func(d *drill, s *state) { d.hook(s, false) }, laterPhase: infrav1.PhaseDeprovisioning, laterReason: infrav1.ReasonStateUnconfirmed},
		{name: "reboot pending", tenant: true, reached: annotated(infrav1.RebootAnnotation), resume: heal,
			bring: func(d *drill, s *state) { hang(d, s); d.command(s, infrav1.RebootAnnotation) },
			phase: infrav1.PhaseProvisioned, reason: infrav1.ReasonProvisioned},
	}
}

func (s *state) in(phase infrav1.IngotHostPhase, reason string) *state {
	s.phase, s.reason = phase, reason
	return s
}

// lacks is what is missing unless something holds.
func lacks(holds bool, what string) string {
	if holds {
		return ""
	}
	return what
}

func stateOf(h *infrav1.IngotHost) infrav1.ClaimState {
	if h.Spec.Claim == nil {
		return ""
	}
	return h.Spec.Claim.State
}

func phaseIs(want infrav1.IngotHostPhase) func(*drill, *state, *infrav1.IngotHost) string {
	return func(_ *drill, _ *state, h *infrav1.IngotHost) string {
		return lacks(h.Status.Phase == want, "it is "+string(h.Status.Phase))
	}
}

func claimIs(want infrav1.ClaimState) func(*drill, *state, *infrav1.IngotHost) string {
	return func(_ *drill, _ *state, h *infrav1.IngotHost) string {
		return lacks(stateOf(h) == want, "its claim is "+string(stateOf(h)))
	}
}

// holdsOrder: the agent of such an order is held.
func holdsOrder(kind infrav1.OrderKind) func(*drill, *state, *infrav1.IngotHost) string {
	return func(d *drill, s *state, h *infrav1.IngotHost) string {
		return lacks(d.holds.isHeld(s.host) && h.Spec.Order != nil && h.Spec.Order.Kind == kind && h.Spec.Order.Result == nil, "no agent is at work")
	}
}

func annotated(name string) func(*drill, *state, *infrav1.IngotHost) string {
	return func(_ *drill, _ *state, h *infrav1.IngotHost) string {
		_, found := h.Annotations[name]
		return lacks(found, "annotation "+name+" is not there")
	}
}

func hang(d *drill, s *state) { d.fault(s, hangs) }
func heal(d *drill, s *state) { d.server(s).BMC.SetFaults() }
func open(d *drill, s *state) { d.holds.open(s.host) }

func armed(step server.Step) func(*drill, *state) {
	return func(d *drill, s *state) { d.holds.arm(s.host, step) }
}

func cutPower(d *drill, s *state) { d.must(d.server(s).Simulated.Power(d.t.Context(), bmc.Off)) }

// switchOff is a person's answer to StateUnconfirmed.
func switchOff(d *drill, s *state) { cutPower(d, s) }

// prepare asks for a BIOS setting that the BMC does not take.
func prepare(d *drill, s *state) {
	d.fault(s, readOnly)
	d.patch(s.host, `{"spec":{"bios":{"settings":{"SriovGlobalEnable":"Enabled"},"apply":"BeforeProvisioning"}}}`)
}

// claimBlindly has a host claimed whose BMC does not answer any more, so that no order follows.
func claimBlindly(d *drill, s *state) {
	d.label(s.host, site.HostLabel, "withheld")
	d.claim(s)
	d.wait("a machine that waits for its host", func(ctx context.Context) (string, error) {
		m := &clusterv1.Machine{}
		err := d.Client.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: s.machine()}, m)
		return lacks(ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false), "it has no bootstrap data"), err
	})
	hang(d, s)
	d.label(s.host, site.HostLabel, s.host)
}

// cleaned: the agent has reported its cleaning, and the BMC does not say that the server is
// off.
func cleaned(d *drill, s *state, h *infrav1.IngotHost) string {
	if d.holds.isHeld(s.host) {
		hang(d, s)
		open(d, s)
	}
	done := h.Spec.Order != nil && h.Spec.Order.Kind == infrav1.OrderClean && h.Spec.Order.Result != nil
	return lacks(done && stateOf(h) == infrav1.ClaimReleasing, "its cleaning is not reported")
}

// ail has the kubelet of a machine stop, and its server not be switched.
func ail(d *drill, s *state) {
	d.holds.silence(s.host, true)
	d.fault(s, readOnly)
	d.must(d.server(s).Simulated.Power(d.t.Context(), bmc.Reset))
}

// failInstalls takes the disk away for a moment each time that an install is about to end,
// until the host is quarantined.
func failInstalls(d *drill, s *state) {
	disk := d.server(s).DiskPath
	d.holds.mu.Lock()
	d.holds.spoil[s.host] = func() {
		if os.Rename(disk, disk+".out") == nil {
			time.AfterFunc(time.Second, func() { _ = os.Rename(disk+".out", disk) })
		}
	}
	d.holds.mu.Unlock()
	d.claim(s)
	d.wait("a host whose installs fail", d.Hosts([]string{s.host}, func(h *infrav1.IngotHost) string {
		return phaseIs(infrav1.PhaseQuarantined)(d, s, h)
	}))
	d.holds.mu.Lock()
	delete(d.holds.spoil, s.host)
	d.holds.mu.Unlock()
	d.release(s)
	d.wait("its machine's end", func(ctx context.Context) (string, error) { return d.gone(ctx, &clusterv1.Machine{}, s.machine()) })
}

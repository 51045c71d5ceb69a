// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/move"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/internal/firmware"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/rotation"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// settle is how soon the power state is read again after a switch.
const settle = 3 * time.Second

// soon is how soon a reconcile that met a newer version starts over, should the
// watch not have brought it first.
const soon = time.Second

// errStale: the host has changed since it was read; the step is not taken.
var errStale = errors.New("the host has changed meanwhile")

// isRetry says whether an error only means that the reconcile starts over.
func isRetry(err error) bool {
	return errors.Is(err, errStale) || errors.Is(err, firmware.ErrStale) || errors.Is(err, bmccredentials.ErrStale) ||
		errors.Is(err, ipam.ErrStale) || errors.Is(err, rotation.ErrStale)
}

// execute takes the step. It returns when to come again; 0 leaves that to again.
// base is the host as it was read; what is saved on the way is saved in it too.
func (r *Reconciler) execute(ctx context.Context, host, base *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	ctx = r.onServer(ctx, host, seen)
	if firmware.Is(decision.Step) {
		return r.executeFirmware(ctx, host, seen, decision)
	}
	if _, ok := decision.Step.(lifecycle.EjectMedia); ok {
		return r.ejectMedia(ctx, host, seen, decision)
	}
	if !isPhysical(decision.Step) {
		return r.executeLedger(ctx, host, seen, decision)
	}
	if err := r.mustBeCurrent(ctx, host); err != nil {
		return r.waits().Soon, err
	}
	if _, ok := decision.Step.(lifecycle.Restart); ok {
		// That it is carried out is saved first: a reboot that is lost is seen and asked for
		// again, one that is repeated is not.
		next := host.DeepCopy()
		inventory.TakeCommand(next, infrav1.RebootAnnotation)
		if err := r.saveCommands(ctx, next, host); err != nil {
			return r.waits().Soon, err
		}
	}
	if lifecycle.IsHeld(base) { // seen off: boot servers answer it as its order says again
		host.Status.Power = seen.Power
	}
	if err := r.noteSwitch(ctx, host, base, decision.Step); err != nil {
		return 0, err
	}
	viewOf(host, seen).Forget()
	r.keepFirmware(host, seen)
	ctrl.LoggerFrom(ctx).Info("Switching the host", "step", fmt.Sprintf("%T", decision.Step), "rule", decision.Rule)
	err := r.switchHost(ctx, host, seen, decision.Step)
	if err != nil && !errors.Is(err, bmc.ErrUnknownOutcome) {
		return r.switchFailed(host, seen, decision, err), nil
	}
	known := r.contacts.of(host)
	known.booting = known.booting.took(host.Spec.Order, decision.Step, r.Clock.Now())
	known.orders = known.orders.after(decision.Step)
	if err != nil {
		known.orders = known.orders.lost(seen.Power)
	}
	if off, isOff := decision.Step.(lifecycle.PowerOff); isOff {
		if off.Graceful {
			host.Status.SoftPowerOffTime = host.Status.LastResetTime // saved with the rest of the status
		}
		if err == nil {
			known.offProof = known.offProof.Ordered(host)
		}
	}
	r.contacts.keep(host, known)
	// A write without an answer may have taken effect: it is not replayed, and the
	// state is read again (I17).
	return r.waits().Settle, nil
}

// noteSwitch saves that the host is about to be switched, before the BMC is called:
// after a crash between the two nothing is switched twice at once. That the system was
// asked to shut down is saved after the BMC took it: one that is asked twice is warned
// twice, one that is not asked at all would lose its power without a warning (I7).
func (r *Reconciler) noteSwitch(ctx context.Context, host, base *infrav1.IngotHost, step lifecycle.Step) error {
	now := metav1.NewTime(r.Clock.Now())
	host.Status.LastResetTime = now
	if _, isOff := step.(lifecycle.PowerOff); !isOff {
		host.Status.SoftPowerOffTime = metav1.Time{}
	}
	noted := base.DeepCopy()
	noted.Status.LastResetTime, noted.Status.SoftPowerOffTime = host.Status.LastResetTime, host.Status.SoftPowerOffTime
	noted.Status.Power = host.Status.Power
	if err := r.Client.Status().Patch(ctx, noted, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("noting a switch of %s: %w", client.ObjectKeyFromObject(host), err)
	}
	base.Status.LastResetTime, base.Status.SoftPowerOffTime = host.Status.LastResetTime, host.Status.SoftPowerOffTime
	base.Status.Power = host.Status.Power
	return nil
}

// isPhysical says whether a step reaches the BMC.
func isPhysical(step lifecycle.Step) bool {
	switch step.(type) {
	case lifecycle.PowerOn, lifecycle.PowerOff, lifecycle.Restart, lifecycle.BootAgent:
		return true
	}
	return false
}

// mustBeCurrent reads the host live: nothing physical happens on an old view (I2).
func (r *Reconciler) mustBeCurrent(ctx context.Context, host *infrav1.IngotHost) error {
	live := &infrav1.IngotHost{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), live); err != nil {
		if apierrors.IsNotFound(err) {
			return errStale
		}
		return fmt.Errorf("live read before a switch: %w", err)
	}
	if !sameForSwitch(live, host) {
		return errStale
	}
	return r.mustNotBePaused(ctx, host)
}

// mustNotBePaused looks at the Clusters: from the moment of their pause on no BMC
// hears of us (I10), though a large namespace's hosts get their own pause over some
// seconds. The Cluster of a claim is read live; a free host looks at all of them, in
// the cache. A pause of the host itself is in its annotations.
func (r *Reconciler) mustNotBePaused(ctx context.Context, host *infrav1.IngotHost) error {
	if host.Spec.Claim == nil {
		clusters := &clusterv1.ClusterList{}
		if err := r.Client.List(ctx, clusters, client.InNamespace(host.Namespace)); err != nil {
			return fmt.Errorf("clusters of the namespace before a switch: %w", err)
		}
		if move.StateOf(clusters.Items) == move.Standstill {
			return errStale
		}
		return nil
	}
	cluster := &clusterv1.Cluster{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.ClusterName}, cluster)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("live read of the Cluster before a switch: %w", err)
	}
	if ptr.Deref(cluster.Spec.Paused, false) {
		return errStale
	}
	return nil
}

// sameForSwitch says whether two versions of a host are the same in all that a
// switch depends on: spec and deletion, what people ask for by annotation (a pause
// too, I10), and when it was last switched. The agent's progress is not.
func sameForSwitch(live, host *infrav1.IngotHost) bool {
	return live.UID == host.UID && live.Generation == host.Generation &&
		live.DeletionTimestamp.IsZero() == host.DeletionTimestamp.IsZero() &&
		maps.Equal(live.Annotations, host.Annotations) &&
		live.Status.LastResetTime.Equal(&host.Status.LastResetTime) &&
		live.Status.SoftPowerOffTime.Equal(&host.Status.SoftPowerOffTime)
}

// switchHost makes the BMC calls of a physical step.
func (r *Reconciler) switchHost(ctx context.Context, host *infrav1.IngotHost, seen *observation, step lifecycle.Step) error {
	return r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		switch step := step.(type) {
		case lifecycle.BootAgent:
			return r.bootAgent(ctx, conn, host)
		case lifecycle.PowerOn:
			return conn.SetPower(ctx, bmc.ActionOn)
		case lifecycle.PowerOff:
			return setPower(ctx, conn, step.Graceful, bmc.ActionGracefulOff, bmc.ActionForceOff)
		case lifecycle.Restart:
			return setPower(ctx, conn, step.Graceful, bmc.ActionGracefulRestart, bmc.ActionForceRestart)
		}
		return fmt.Errorf("step %T is not physical", step)
	})
}

// setPower asks gracefully where that is wanted; a BMC that knows no graceful way
// is told the hard one, as it would be after the deadline.
func setPower(ctx context.Context, conn bmc.Conn, graceful bool, soft, hard bmc.PowerAction) error {
	if graceful {
		err := conn.SetPower(ctx, soft)
		if !errors.Is(err, bmc.ErrNotSupported) {
			return err
		}
	}
	return conn.SetPower(ctx, hard)
}

// readBack looks what became of an override whose answer was lost (I17): a BMC that
// loses every answer would otherwise never be asked to switch the host on.
func readBack(ctx context.Context, conn bmc.Conn, want bmc.BootOverride, lost error) error {
	now, err := conn.BootOverride(ctx)
	switch {
	case err != nil:
		return err
	case now.Target != want.Target:
		return fmt.Errorf("%w: it shows %q: %v", bmc.ErrNotApplied, now.Target, lost) //nolint:errorlint // the outcome is known now
	}
	return nil
}

// switchFailed shows the failure of a switch as the BMC's, and backs off.
func (r *Reconciler) switchFailed(host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision, err error) time.Duration {
	known := r.failed(host, seen.known, refusal(decision.Step, err), r.Clock.Now())
	known.orders = known.orders.refusedBy(decision.Step, seen.Power).failedAs(known)
	known.booting = known.booting.refused(decision.Step)
	switch off, isOff := decision.Step.(lifecycle.PowerOff); {
	case isOff && off.Graceful:
		known.asking = known.asking.refused(r.Clock.Now())
	case isOff && seen.Power == infrav1.PowerStateOff && (errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol)):
		known.offProof = known.offProof.Refused(host)
	}
	return r.bmcFailed(host, seen, decision, known)
}

// bmcFailed shows a failure as the BMC's, and says when to come again.
func (r *Reconciler) bmcFailed(host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision, known contact) time.Duration {
	r.contacts.keep(host, known)
	seen.contact(host, known)
	*decision = lifecycle.Next(host, seen.Observation, r.Policy)
	return max(seen.RetryAt.Sub(r.Clock.Now()), r.waits().Soon)
}

// executeLedger takes the steps that write to the API server only.
func (r *Reconciler) executeLedger(ctx context.Context, host *infrav1.IngotHost, seen *observation, decision *lifecycle.Decision) (time.Duration, error) {
	switch step := decision.Step.(type) {
	case lifecycle.SaveLedger:
		return r.waits().Soon, r.saveLedger(ctx, host, step, decision.Refuses)
	case lifecycle.RecordAddress:
		problem, err := r.book().Record(ctx, ipam.View{Host: host, Hardware: seen.hardware, Network: seen.network, Lost: seen.addressLost})
		if problem.Message != "" {
			seen.AddressReason, seen.AddressProblem = problem.Reason, problem.Message
			*decision = lifecycle.Next(host, seen.Observation, r.Policy)
			return r.Poll, nil
		}
		return r.waits().Soon, err
	case lifecycle.Forget:
		if err := r.rotator(nil).Keep(ctx, host); err != nil {
			return soon, err
		}
		let := host.DeepCopy()
		controllerutil.RemoveFinalizer(let, infrav1.HostFinalizer)
		return r.waits().Soon, r.patchLocked(ctx, let, host)
	}
	return 0, nil
}

// saveLedger writes the ledger on the version that was decided on. refuses: the commands in
// it were not carried out.
func (r *Reconciler) saveLedger(ctx context.Context, host *infrav1.IngotHost, step lifecycle.SaveLedger, refuses bool) error {
	next := host.DeepCopy()
	step.Ledger.Apply(next)
	for _, name := range step.RemoveAnnotations {
		delete(next.Annotations, name)
	}
	for _, name := range step.RemoveLabels {
		delete(next.Labels, name)
	}
	if !refuses {
		return r.saveCommands(ctx, next, host)
	}
	if err := r.patchLocked(ctx, next, host); err != nil {
		return err
	}
	for _, c := range inventory.NewCommands(host, next) {
		logCommand(ctx, "Refusing a command", host, c)
	}
	return nil
}

// saveCommands is patchLocked, and records events of the commands that it carries out.
func (r *Reconciler) saveCommands(ctx context.Context, next, host *infrav1.IngotHost) error {
	commands := inventory.NewCommands(host, next)
	if err := r.patchLocked(ctx, next, host); err != nil {
		return err
	}
	for _, c := range commands {
		logCommand(ctx, "Carrying out a command", host, c)
		r.note(host, infrav1.ReasonCommandExecuted, fmt.Sprintf("Carrying out the command %s, given at %s by %s.",
			c.Name, c.Time.UTC().Format(time.RFC3339), cmp.Or(c.User, "an unknown user")))
	}
	return nil
}

func logCommand(ctx context.Context, what string, host *infrav1.IngotHost, c infrav1.HostCommand) {
	ctrl.LoggerFrom(ctx).Info(what, "host", client.ObjectKeyFromObject(host).String(), "command", c.Name, "time", c.Time.UTC().Format(time.RFC3339), "user", c.User)
}

// patchLocked writes by optimistic lock. A conflict means that the decision was
// made on an old view: the reconcile starts over.
func (r *Reconciler) patchLocked(ctx context.Context, next, host *infrav1.IngotHost) error {
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("writing the ledger of %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return nil
}

// again says when to look at the host again, when nothing else brings it up.
func (r *Reconciler) again(host *infrav1.IngotHost, obs lifecycle.Observation, decision lifecycle.Decision) time.Duration {
	switch step := decision.Step.(type) {
	case lifecycle.Forget:
		return 0
	case lifecycle.Wait:
		if !step.Until.IsZero() {
			return min(r.Poll, max(step.Until.Sub(obs.Now), r.waits().Soon))
		}
	}
	return untilTurn(host.UID, r.Clock.Now(), r.pollOf(host, obs))
}

// untilTurn is how long it is to the host's own moment in every poll, by its UID,
// and between a half and one and a half polls: what brings up all hosts at once, as
// the start of a manager or the end of a pause, does not have all BMCs asked at the
// same moment from then on.
func untilTurn(uid types.UID, now time.Time, poll time.Duration) time.Duration {
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(uid)) // it never fails
	own := time.Duration(digest.Sum64() % uint64(poll))
	wait := (own - time.Duration(now.UnixNano()%int64(poll)) + poll) % poll
	if wait <= poll/2 {
		wait += poll
	}
	return wait
}

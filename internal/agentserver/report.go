// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// Limits of what an agent may write into an order's result (limits of the schema).
const (
	maxReason           = 128
	maxMessage          = 1024
	maxRejectedAttempts = 32
)

// acceptReport ends the order, and acknowledges only after the write. For an install that write is
// the commit point (I4). A report that is repeated after its reply was lost is acknowledged again.
func (s *Server) acceptReport(r *http.Request, c caller, in agentapi.Report) (agentapi.Acknowledgement, *agentapi.Error) {
	if in.OrderID != c.claims.OrderID || (in.Outcome != agentapi.Succeeded && in.Outcome != agentapi.Failed) {
		return agentapi.Acknowledgement{}, badRequest("the report names another order than its token, or no outcome")
	}
	if c.isUnknownClient() {
		return agentapi.Acknowledgement{Action: agentapi.Restart}, nil
	}
	repeated := false
	check := func(ctx context.Context, host *infrav1.IngotHost, c caller) *agentapi.Error {
		if repeated = isReported(host, c); repeated {
			return nil
		}
		if refusal := s.authorize(ctx, host, c); refusal != nil {
			return refusal
		}
		if host.Spec.Order.AgentKey == "" {
			return noSession()
		}
		if in.Outcome == agentapi.Succeeded && isLive(host) {
			return badRequest("a live system is provisioned when it fetches its data, not when its agent reports success")
		}
		return nil
	}
	checked := in
	host, refusal := s.transact(r.Context(), c, check, func(host *infrav1.IngotHost) (refusal *agentapi.Error) {
		if repeated {
			return nil
		}
		if checked, refusal = s.checkReport(r.Context(), host, in); refusal == nil {
			rejectAttempt(host, in, checked)
			s.applyReport(host, checked)
		}
		return refusal
	})
	if refusal != nil {
		return agentapi.Acknowledgement{}, refusal
	}
	if !repeated {
		s.recordOutcome(host, c, checked)
		s.recordBootEnd(r.Context(), host, checked)
	}
	if c.claims.Purpose == token.Install && checked.Outcome == agentapi.Succeeded {
		return agentapi.Acknowledgement{Action: agentapi.BootDisk}, nil
	}
	return agentapi.Acknowledgement{Action: agentapi.PowerOff}, nil
}

// recordBootEnd shows the end in the host's boots, for people. A failure is only logged.
func (s *Server) recordBootEnd(ctx context.Context, host *infrav1.IngotHost, in agentapi.Report) {
	if s.Boots == nil {
		return
	}
	key := client.ObjectKeyFromObject(host)
	if err := s.Boots.End(ctx, key, s.Clock.Now(), in.Outcome == agentapi.Succeeded); err != nil {
		s.Log.Error(err, "Could not record the end of a boot", "host", key.String())
	}
}

// isReported reports whether the host already holds the result that the caller reports. The
// acknowledgement of a repeated report gives no authority: its write has happened, for this
// instance and attempt.
func isReported(host *infrav1.IngotHost, c caller) bool {
	if c.claims.Purpose == token.Install {
		claim := host.Spec.Claim
		return claim != nil && claim.State == infrav1.ClaimProvisioned &&
			claim.InstanceID == c.claims.InstanceID && claim.Attempt == c.claims.Attempt
	}
	order := host.Spec.Order
	return order != nil && order.ID == c.claims.OrderID && order.AgentKey == c.key && order.Result != nil
}

// checkReport compares a reported success with the order as it is now: an old agent may not
// understand all of the order, or the host's cleaning became stricter meanwhile. It turns the
// success into a failure if something was not done as ordered.
func (s *Server) checkReport(ctx context.Context, host *infrav1.IngotHost, in agentapi.Report) (agentapi.Report, *agentapi.Error) {
	if in.Outcome != agentapi.Succeeded {
		return in, nil
	}
	switch host.Spec.Order.Kind {
	case infrav1.OrderInstall:
		if mirror := host.Spec.Claim; !slices.Equal(mirrorDisks(mirror), in.MirrorDisks) {
			in.Outcome, in.Reason = agentapi.Failed, infrav1.ReasonInstallFailed
			in.Message = "the agent reports success, but did not install to all disks of softwareRAID: " +
				lifecycle.DescribeDisks(mirror.MirrorDisks) + "; " + checkAgentVersion
		}
	case infrav1.OrderClean:
		order, refusal := s.wipeOrder(ctx, host)
		if refusal != nil {
			return in, refusal
		}
		if left := lifecycle.NotCleaned(*order, in); len(left) > 0 {
			in.Outcome, in.Reason = agentapi.Failed, infrav1.ReasonCleanFailed
			in.Message = "the agent reports success, but did not clean these disks as ordered: " +
				lifecycle.DescribeDisks(left) + "; " + checkAgentVersion
		}
	}
	return in, nil
}

// rejectAttempt records an install that the agent finished and the manager does not accept: its
// disk is complete, but the next attempt must write it again (I21).
func rejectAttempt(host *infrav1.IngotHost, reported, checked agentapi.Report) {
	if host.Spec.Order.Kind != infrav1.OrderInstall || reported.Outcome != agentapi.Succeeded || checked.Outcome == agentapi.Succeeded {
		return
	}
	attempt := reported.AdoptedAttempt
	if attempt <= 0 {
		attempt = host.Spec.Claim.Attempt
	}
	rejected := append(host.Spec.Claim.RejectedAttempts, attempt)
	host.Spec.Claim.RejectedAttempts = rejected[max(0, len(rejected)-maxRejectedAttempts):]
}

// applyReport writes the report into the host's spec.
func (s *Server) applyReport(host *infrav1.IngotHost, in agentapi.Report) {
	if host.Spec.Order.Kind == infrav1.OrderInstall && in.Outcome == agentapi.Succeeded {
		lifecycle.ForgetRefusal(host)
		host.Spec.Claim.State = infrav1.ClaimProvisioned
		host.Spec.Claim.ConfirmedTime = metav1.NewTime(s.Clock.Now())
		if in.AdoptedAttempt != host.Spec.Claim.Attempt {
			host.Spec.Claim.AdoptedAttempt = max(in.AdoptedAttempt, 0)
		}
		host.Spec.Order = nil
		lifecycle.SpendApproval(host) // its disk is written
		return
	}
	result := &infrav1.OrderResult{
		Outcome: infrav1.OrderOutcome(in.Outcome), CompletionTime: metav1.NewTime(s.Clock.Now()),
		CleanedDisks: lifecycle.CleanedDisks(in.Cleaned),
	}
	if in.Outcome == agentapi.Failed {
		result.Reason, result.Message = cutName(in.Reason, maxReason), inventory.Truncate(in.Message, maxMessage)
	}
	host.Spec.Order.Result = result
	lifecycle.RememberRefusal(host)
}

// recordOutcome records an event about a report.
func (s *Server) recordOutcome(host *infrav1.IngotHost, c caller, in agentapi.Report) {
	normal := func(reason, message string, args ...any) {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, reason, eventAction, message, args...)
	}
	isInstall := c.claims.Purpose == token.Install
	switch {
	case in.Outcome == agentapi.Failed:
		s.recordFailure(host, c, in)
	case isInstall && in.AdoptedAttempt > 0:
		normal(infrav1.ReasonProvisioned, "The disk already holds attempt %d of this machine, complete. Ingot wrote nothing; the server now boots from it.", in.AdoptedAttempt)
	case isInstall:
		target := "the disk"
		if len(in.MirrorDisks) > 0 {
			target = fmt.Sprintf("%d mirrored disks", 1+len(in.MirrorDisks))
		}
		normal(infrav1.ReasonProvisioned, "The image is on %s and verified (%d MiB written). The server now boots from it.", target, in.BytesWritten>>20)
	case c.claims.Purpose == token.Clean:
		normal(infrav1.ReasonCleaned, "%s", cleaningSummary(in))
	default:
		normal(infrav1.ReasonInspected, "The hardware was inspected.")
	}
}

func (s *Server) recordFailure(host *infrav1.IngotHost, c caller, in agentapi.Report) {
	eventReason, next := infrav1.ReasonInspectFailed, ", or quarantines it after too many failures"
	switch c.claims.Purpose {
	case token.Install:
		eventReason = infrav1.ReasonInstallFailed
		if note := lifecycle.RefusalNote(in.Reason); note != "" {
			next = "; " + note
		}
	case token.Clean:
		eventReason = infrav1.ReasonCleanFailed
	}
	s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, eventReason, eventAction, "Attempt %d failed: %s: %s. Ingot powers the host off and tries again%s.",
		c.claims.Attempt, cutName(in.Reason, maxReason), inventory.Truncate(in.Message, maxMessage), next)
}

// cleaningSummary counts the disks per cleaning method.
func cleaningSummary(in agentapi.Report) string {
	text := fmt.Sprintf("%d disks wiped", len(in.CleanedDisks))
	count := map[string]int{}
	for _, disk := range in.Cleaned {
		count[cutName(disk.Method, maxReason)]++
	}
	for _, method := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf("; %s: %d", method, count[method])
	}
	return inventory.Truncate(text+".", maxMessage)
}

// cutName cuts a name that an agent reports to limit characters. Unlike inventory.Truncate it adds
// no ellipsis, which reasons and host names must not contain.
func cutName(name string, limit int) string {
	runes := []rune(name)
	return string(runes[:min(len(runes), limit)])
}

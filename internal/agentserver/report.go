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

// Bounds of what an agent may write into an order's result (the schema's).
const (
	maxReason  = 128
	maxMessage = 1024
)

// takeReport ends the order, and acknowledges only after the write. For an
// install that write is the commit point (I4). A report that comes again after
// its reply was lost is acknowledged again.
func (s *Server) takeReport(r *http.Request, c caller, in agentapi.Report) (agentapi.Acknowledgement, *agentapi.Error) {
	if in.OrderID != c.claims.OrderID || (in.Outcome != agentapi.Succeeded && in.Outcome != agentapi.Failed) {
		return agentapi.Acknowledgement{}, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "the report names another order than its token, or no outcome"}
	}
	if c.isStranger() {
		return strangerLeaves(), nil
	}
	again := false
	check := func(ctx context.Context, host *infrav1.IngotHost) *agentapi.Error {
		again = reported(host, c)
		if again {
			return nil
		}
		if refusal := s.mayAct(c)(ctx, host); refusal != nil {
			return refusal
		}
		if host.Spec.Order.AgentKey == "" {
			return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "no session is open: call " + agentapi.PathSession + " first"}
		}
		if in.Outcome == agentapi.Succeeded && isLive(host) {
			return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "a live system is provisioned when it fetches its data, and not before"}
		}
		return nil
	}
	said := in
	host, refusal := s.transact(r.Context(), c, check, func(host *infrav1.IngotHost) (refusal *agentapi.Error) {
		if again {
			return nil
		}
		if in, refusal = s.compare(r.Context(), host, said); refusal == nil {
			rejectAttempt(host, said, in)
			s.conclude(host, in)
		}
		return refusal
	})
	if refusal != nil {
		return agentapi.Acknowledgement{}, refusal
	}
	if !again {
		s.tell(host, c, in)
		s.endBoot(r.Context(), host, in)
	}
	if c.claims.Purpose == token.Install && in.Outcome == agentapi.Succeeded {
		return agentapi.Acknowledgement{Action: agentapi.BootDisk}, nil
	}
	return agentapi.Acknowledgement{Action: agentapi.PowerOff}, nil
}

// endBoot shows the end in the host's boots. It is for people: that it fails holds
// nobody up.
func (s *Server) endBoot(ctx context.Context, host *infrav1.IngotHost, in agentapi.Report) {
	if s.Boots == nil {
		return
	}
	key := client.ObjectKeyFromObject(host)
	if err := s.Boots.End(ctx, key, s.Clock.Now(), in.Outcome == agentapi.Succeeded); err != nil {
		s.Log.Error(err, "Could not show the end of a boot", "host", key.String())
	}
}

// reported says whether the ledger already holds the end that the caller reports.
// The acknowledgement of such a repetition gives no authority: the write it stands
// for has happened, for this instance and attempt.
func reported(host *infrav1.IngotHost, c caller) bool {
	if c.claims.Purpose == token.Install {
		claim := host.Spec.Claim
		return claim != nil && claim.State == infrav1.ClaimProvisioned &&
			claim.InstanceID == c.claims.InstanceID && claim.Attempt == c.claims.Attempt
	}
	order := host.Spec.Order
	return order != nil && order.ID == c.claims.OrderID && order.AgentKey == c.key && order.Result != nil
}

// compare holds the report of a wipe against the order as it is now: an agent may be too
// old to have understood it all, or the host's cleaning was made stricter meanwhile. What
// was not done as ordered makes the try one that failed.
func (s *Server) compare(ctx context.Context, host *infrav1.IngotHost, in agentapi.Report) (agentapi.Report, *agentapi.Error) {
	if host.Spec.Order.Kind == infrav1.OrderInstall && in.Outcome == agentapi.Succeeded {
		return compareMirror(host, in), nil
	}
	if host.Spec.Order.Kind != infrav1.OrderWipe || in.Outcome != agentapi.Succeeded {
		return in, nil
	}
	order, refusal := s.wipeOrder(ctx, host)
	if refusal != nil {
		return in, refusal
	}
	if left := lifecycle.NotCleaned(*order, in); len(left) > 0 {
		in.Outcome, in.Reason = agentapi.Failed, infrav1.ReasonWipeFailed
		in.Message = "the agent reports success, and not that these were cleaned as ordered: " + lifecycle.DescribeDisks(left) +
			"; is the agent that the boot server gives out as new as the manager, as on signed or own boot media it may not be?"
	}
	return in, nil
}

// compareMirror makes an install one that failed which was to be on two disks, and that an
// agent made on one, since it knows of no other way.
func compareMirror(host *infrav1.IngotHost, in agentapi.Report) agentapi.Report {
	if slices.Equal(mirrorDisks(host.Spec.Claim), in.MirrorDisks) {
		return in
	}
	in.Outcome, in.Reason = agentapi.Failed, infrav1.ReasonInstallFailed
	in.Message = "the agent reports success, and not that the image is on all disks of softwareRAID: " +
		lifecycle.DescribeDisks(host.Spec.Claim.MirrorDisks) +
		"; is the agent that the boot server gives out as new as the manager, as on signed or own boot media it may not be?"
	return in
}

// maxRejectedAttempts is the schema's bound.
const maxRejectedAttempts = 32

// rejectAttempt notes an install that the agent finished and the manager does not accept:
// its disk is complete, and the next attempt must write it all the same (I21).
func rejectAttempt(host *infrav1.IngotHost, said, judged agentapi.Report) {
	if host.Spec.Order.Kind != infrav1.OrderInstall || said.Outcome != agentapi.Succeeded || judged.Outcome == agentapi.Succeeded {
		return
	}
	attempt := max(said.AdoptedAttempt, 0)
	if attempt == 0 {
		attempt = host.Spec.Claim.Attempt
	}
	rejected := append(host.Spec.Claim.RejectedAttempts, attempt)
	host.Spec.Claim.RejectedAttempts = rejected[max(0, len(rejected)-maxRejectedAttempts):]
}

// conclude writes the report into the ledger.
func (s *Server) conclude(host *infrav1.IngotHost, in agentapi.Report) {
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
		Outcome: infrav1.OrderOutcome(in.Outcome), At: metav1.NewTime(s.Clock.Now()),
		CleanedDisks: lifecycle.CleanedDisks(in.Cleaned),
	}
	if in.Outcome == agentapi.Failed {
		result.Reason, result.Message = cutName(in.Reason, maxReason), inventory.Truncate(in.Message, maxMessage)
	}
	host.Spec.Order.Result = result
	lifecycle.RememberRefusal(host)
}

// failed is the reason of the event about a try that failed.
func failed(purpose token.Purpose) string {
	switch purpose {
	case token.Install:
		return infrav1.ReasonInstallFailed
	case token.Wipe:
		return infrav1.ReasonWipeFailed
	default:
		return infrav1.ReasonInspectFailed
	}
}

// tell says in an event what has happened.
func (s *Server) tell(host *infrav1.IngotHost, c caller, in agentapi.Report) {
	switch {
	case in.Outcome == agentapi.Failed:
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, failed(c.claims.Purpose), action,
			"Attempt %d failed: %s: %s. Ingot powers the host off and tries again%s", c.claims.Attempt, cutName(in.Reason, maxReason), inventory.Truncate(in.Message, maxMessage), unlessFor(c.claims.Purpose, in.Reason))
	case c.claims.Purpose == token.Install && in.AdoptedAttempt > 0:
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonProvisioned, action,
			"The disk already holds attempt %d of this machine, complete. Ingot wrote nothing; the server now boots from it", in.AdoptedAttempt)
	case c.claims.Purpose == token.Install:
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonProvisioned, action,
			"The image is on %s and verified (%s written); the server now boots from it", where(in), bytesText(in.BytesWritten))
	case c.claims.Purpose == token.Wipe:
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonCleaned, action, "%s", wiped(in))
	default:
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonInspected, action, "The hardware was inspected")
	}
}

// unlessFor says what else may come of a try that failed.
func unlessFor(purpose token.Purpose, reason string) string {
	if note := lifecycle.RefusalNote(reason); note != "" && purpose == token.Install {
		return "; " + note
	}
	return ", or quarantines it after too many failures"
}

func where(in agentapi.Report) string {
	if len(in.MirrorDisks) > 0 {
		return fmt.Sprintf("%d disks, which are a mirror,", 1+len(in.MirrorDisks))
	}
	return "the disk"
}

// wiped sums up by what methods the disks were cleaned.
func wiped(in agentapi.Report) string {
	text := fmt.Sprintf("%d disks wiped", len(in.WipedDisks))
	count := map[string]int{}
	for _, disk := range in.Cleaned {
		count[cutName(disk.Method, maxReason)]++
	}
	for _, method := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf("; %s: %d", method, count[method])
	}
	return inventory.Truncate(text, maxMessage)
}

func bytesText(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }

// cutName bounds a name that an agent gives, to that many characters. Unlike a text
// (inventory.Truncate) it gets no ellipsis, which is no part of a reason or a host name.
func cutName(name string, limit int) string {
	runes := []rune(name)
	if len(runes) <= limit {
		return name
	}
	return string(runes[:limit])
}

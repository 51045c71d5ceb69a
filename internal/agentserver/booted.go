// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// maxAddresses is how many addresses of a system are kept (the schema's bound).
const maxAddresses = 64

// takeBooted keeps what the installed system says of itself. Its token gives the
// authority to do just that, for one instance and attempt.
func (s *Server) takeBooted(r *http.Request, c caller, in agentapi.Booted) (agentapi.BootedReply, *agentapi.Error) {
	if in.InstanceID != c.claims.InstanceID {
		return agentapi.BootedReply{}, invalidToken("the token is not for this report")
	}
	host, refusal := s.liveHost(r.Context(), c)
	if refusal != nil {
		return agentapi.BootedReply{}, refusal
	}
	claim := host.Spec.Claim
	if claim == nil || claim.State != infrav1.ClaimProvisioned || claim.InstanceID != c.claims.InstanceID ||
		c.claims.Attempt != claim.Attempt && c.claims.Attempt != claim.AdoptedAttempt {
		return agentapi.BootedReply{}, orderGone("this instance does not hold the host any more")
	}
	report := &infrav1.BootedSystem{InstanceID: in.InstanceID, Hostname: cutName(in.Hostname, 253),
		Time: metav1.NewTime(s.Clock.Now()), Addresses: inventory.GlobalAddresses(in.Addresses, maxAddresses)}
	if in.Interrupted {
		report.Interrupted = ptr.To(true)
	}
	switch {
	case in.Sentinel == nil:
	case *in.Sentinel:
		report.Sentinel = infrav1.SentinelPresent
	default:
		report.Sentinel = infrav1.SentinelMissing
	}
	if err := s.keepReport(r.Context(), host, report); err != nil {
		s.Log.Error(err, "Could not keep the report of an installed system", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.BootedReply{}, notReady("the report could not be saved")
	}
	base := host.DeepCopy()
	host.Status.Addresses = report.Addresses
	first := host.Status.Booted == nil || host.Status.Booted.InstanceID != in.InstanceID
	if first {
		host.Status.Booted = inventory.SummarizeBooted(*report)
	}
	if equality.Semantic.DeepEqual(base.Status, host.Status) {
		return agentapi.BootedReply{Accepted: true}, nil
	}
	if err := s.Client.Status().Patch(r.Context(), host, client.MergeFrom(base)); err != nil {
		s.Log.Error(err, "Could not save the report of an installed system", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.BootedReply{}, notReady("the report could not be saved")
	}
	if first && in.Interrupted {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonFirstBootInterrupted, action,
			"The first boot of the installed system was cut off before cloud-init had ended, which leaves out for good what it had begun; a Machine whose Node does not join is to be replaced")
	}
	if first {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonBooted, action,
			"The installed system has booted and reports %d addresses", len(host.Status.Addresses))
	}
	return agentapi.BootedReply{Accepted: true}, nil
}

// keepReport writes the report where a lost status does not lose it: the system says
// it only once. A repeated report keeps the time of the first, and what that said of the
// first boot. A host without hardware facts has no place for it, and shows it in its status
// alone.
func (s *Server) keepReport(ctx context.Context, host *infrav1.IngotHost, report *infrav1.BootedSystem) error {
	hardware := &infrav1.IngotHardware{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(host), hardware); err != nil {
		return client.IgnoreNotFound(err)
	}
	base := hardware.DeepCopy()
	if kept := hardware.Spec.Booted; kept != nil && kept.InstanceID == report.InstanceID {
		report.Time, report.Interrupted, report.Sentinel = kept.Time, kept.Interrupted, kept.Sentinel
	}
	hardware.Spec.Booted = report
	if equality.Semantic.DeepEqual(base.Spec, hardware.Spec) {
		return nil
	}
	if err := s.Client.Patch(ctx, hardware, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("report of the system on %s: %w", host.Name, err)
	}
	return nil
}

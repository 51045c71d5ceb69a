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

// maxAddresses bounds the addresses of a system that are saved (limit of the schema).
const maxAddresses = 64

// acceptBooted saves the report of the installed system. Its token allows only that, for one
// instance and attempt.
func (s *Server) acceptBooted(r *http.Request, c caller, in agentapi.Booted) (agentapi.BootedReply, *agentapi.Error) {
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
		ReportTime: metav1.NewTime(s.Clock.Now()), Addresses: inventory.GlobalAddresses(in.Addresses, maxAddresses)}
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
	if err := s.saveBooted(r.Context(), host, report); err != nil {
		return agentapi.BootedReply{}, s.unavailable(err, "save the report of the installed system", client.ObjectKeyFromObject(host))
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
		return agentapi.BootedReply{}, s.unavailable(err, "save the report of the installed system", client.ObjectKeyFromObject(host))
	}
	if first && in.Interrupted {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonFirstBootInterrupted, eventAction,
			"The first boot was cut off before cloud-init finished, which does not repeat the interrupted steps. If the Machine's Node does not join, delete the Machine to replace it.")
	}
	if first {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonBooted, eventAction,
			"The installed system has booted and reports %d addresses.", len(host.Status.Addresses))
	}
	return agentapi.BootedReply{Accepted: true}, nil
}

// saveBooted writes the report to the IngotHardware, where it survives a lost status: the system
// reports only once. A repeated report keeps the time and first-boot result of the first. Without
// an IngotHardware the report is in the host's status only.
func (s *Server) saveBooted(ctx context.Context, host *infrav1.IngotHost, report *infrav1.BootedSystem) error {
	hardware := &infrav1.IngotHardware{}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(host), hardware); err != nil {
		return client.IgnoreNotFound(err)
	}
	base := hardware.DeepCopy()
	if kept := hardware.Spec.Booted; kept != nil && kept.InstanceID == report.InstanceID {
		report.ReportTime, report.Interrupted, report.Sentinel = kept.ReportTime, kept.Interrupted, kept.Sentinel
	}
	hardware.Spec.Booted = report
	if equality.Semantic.DeepEqual(base.Spec, hardware.Spec) {
		return nil
	}
	if err := s.Client.Patch(ctx, hardware, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("save booted report of host %s: %w", host.Name, err)
	}
	return nil
}

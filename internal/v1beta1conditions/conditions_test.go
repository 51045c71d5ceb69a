// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1conditions

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// M24, M25: every condition in the form of contract v1beta1.
func TestConditions(t *testing.T) {
	at := metav1.NewTime(time.Unix(1000, 0))
	old := func(kind clusterv1.ConditionType, status corev1.ConditionStatus, severity clusterv1.ConditionSeverity, reason, message string) clusterv1.Condition {
		return clusterv1.Condition{Type: kind, Status: status, Severity: severity, Reason: reason, Message: message, LastTransitionTime: at}
	}
	for name, tc := range map[string]struct {
		now  []metav1.Condition
		want clusterv1.Conditions
	}{
		"none": {},
		"ready first, then by name": {
			now: []metav1.Condition{
				{Type: "Installed", Status: "True", Reason: "Installed", LastTransitionTime: at},
				{Type: "Booted", Status: "Unknown", Reason: "WaitingForBoot", Message: "not yet", LastTransitionTime: at},
				{Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: at},
			},
			want: clusterv1.Conditions{
				old("Ready", "True", "", "Ready", ""),
				old("Booted", "Unknown", "", "WaitingForBoot", "not yet"),
				old("Installed", "True", "", "Installed", ""),
			},
		},
		"what waits is Info": {
			now:  []metav1.Condition{{Type: "Ready", Status: "False", Reason: infrav1.ReasonWaitingForClusterInfrastructure, Message: "100% waiting", LastTransitionTime: at}},
			want: clusterv1.Conditions{old("Ready", "False", "Info", infrav1.ReasonWaitingForClusterInfrastructure, "100% waiting")},
		},
		"what is tried again is a Warning": {
			now:  []metav1.Condition{{Type: "HostClaimed", Status: "False", Reason: infrav1.ReasonNoMatchingHost, LastTransitionTime: at}},
			want: clusterv1.Conditions{old("HostClaimed", "False", "Warning", infrav1.ReasonNoMatchingHost, "")},
		},
		"what a person must mend is an Error": {
			now:  []metav1.Condition{{Type: "HostClaimed", Status: "False", Reason: infrav1.ReasonHostLost, LastTransitionTime: at}},
			want: clusterv1.Conditions{old("HostClaimed", "False", "Error", infrav1.ReasonHostLost, "")},
		},
		"not paused is no trouble": {
			now:  []metav1.Condition{{Type: "Paused", Status: "False", Reason: "NotPaused", LastTransitionTime: at}},
			want: clusterv1.Conditions{old("Paused", "False", "", "NotPaused", "")},
		},
		"paused": {
			now:  []metav1.Condition{{Type: "Paused", Status: "True", Reason: "Paused", Message: "Cluster spec.paused is set to true", LastTransitionTime: at}},
			want: clusterv1.Conditions{old("Paused", "True", "Info", "Paused", "Cluster spec.paused is set to true")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Conditions(tc.now)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// The reasons by which a machine or a cluster waits, is in trouble, or is stuck.
func TestSeverity(t *testing.T) {
	for reason, want := range map[string]clusterv1.ConditionSeverity{
		infrav1.ReasonWaitingForClusterInfrastructure: clusterv1.ConditionSeverityInfo,
		infrav1.ReasonWaitingForBootstrapData:         clusterv1.ConditionSeverityInfo,
		infrav1.ReasonWaitingForEndpoint:              clusterv1.ConditionSeverityInfo,
		infrav1.ReasonProvisioning:                    clusterv1.ConditionSeverityInfo,
		infrav1.ReasonReleasing:                       clusterv1.ConditionSeverityInfo,
		infrav1.ReasonDeleting:                        clusterv1.ConditionSeverityInfo,
		infrav1.ReasonMachinesRemain:                  clusterv1.ConditionSeverityInfo,
		infrav1.ReasonNoMatchingHost:                  clusterv1.ConditionSeverityWarning,
		infrav1.ReasonNotClaimed:                      clusterv1.ConditionSeverityWarning,
		infrav1.ReasonWaitingForFence:                 clusterv1.ConditionSeverityWarning,
		"AReasonOfTomorrow":                           clusterv1.ConditionSeverityWarning,
		infrav1.ReasonClaimLost:                       clusterv1.ConditionSeverityError,
		infrav1.ReasonHostLost:                        clusterv1.ConditionSeverityError,
		infrav1.ReasonProviderIDInvalid:               clusterv1.ConditionSeverityError,
		infrav1.ReasonFirstBootInterrupted:            clusterv1.ConditionSeverityError,
		infrav1.ReasonBootstrapFailed:                 clusterv1.ConditionSeverityError,
		infrav1.ReasonFailureDomainConflict:           clusterv1.ConditionSeverityError,
		infrav1.ReasonOwnerMismatch:                   clusterv1.ConditionSeverityError,
		infrav1.ReasonSelectorInvalid:                 clusterv1.ConditionSeverityError,
		infrav1.ReasonTooManyFailureDomains:           clusterv1.ConditionSeverityError,
		infrav1.ReasonWaitingForMachineDeletion:       clusterv1.ConditionSeverityError,
	} {
		if got := Severity(reason); got != want {
			t.Errorf("severity of %s is %s, want %s", reason, got, want)
		}
	}
}

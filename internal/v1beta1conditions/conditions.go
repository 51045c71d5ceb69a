// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1conditions

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Conditions returns the conditions in the form of contract v1beta1 (M25), Ready first, with a severity for
// those that are False. It returns nil if there are none.
func Conditions(now []metav1.Condition) clusterv1.Conditions {
	var out clusterv1.Conditions
	for _, condition := range now {
		out = append(out, *convert(condition))
	}
	slices.SortStableFunc(out, func(a, b clusterv1.Condition) int {
		return cmp.Or(cmp.Compare(rank(a.Type), rank(b.Type)), cmp.Compare(a.Type, b.Type))
	})
	return out
}

// rank puts Ready first, as Cluster API does.
func rank(kind clusterv1.ConditionType) int {
	if kind == clusterv1.ReadyCondition {
		return 0
	}
	return 1
}

func convert(c metav1.Condition) *clusterv1.Condition {
	kind := clusterv1.ConditionType(c.Type)
	var out *clusterv1.Condition
	switch {
	case c.Type == infrav1.PausedCondition && c.Status == metav1.ConditionFalse:
		out = v1beta1.FalseConditionWithNegativePolarity(kind)
	case c.Type == infrav1.PausedCondition && c.Status == metav1.ConditionTrue:
		out = v1beta1.TrueConditionWithNegativePolarity(kind, c.Reason, clusterv1.ConditionSeverityInfo, "%s", c.Message)
	case c.Status == metav1.ConditionTrue:
		out = v1beta1.TrueCondition(kind)
	case c.Status == metav1.ConditionFalse:
		out = v1beta1.FalseCondition(kind, c.Reason, Severity(c.Reason), "%s", c.Message)
	default:
		out = v1beta1.UnknownCondition(kind, c.Reason, "%s", c.Message)
	}
	out.Status = corev1.ConditionStatus(c.Status)
	out.Reason, out.Message = c.Reason, c.Message
	out.LastTransitionTime = c.LastTransitionTime
	return out
}

// severities are the severities of reasons of False conditions: Error if an operator must act, Info if
// Ingot waits for progress. Other reasons are Warning: Ingot retries.
var severities = map[string]clusterv1.ConditionSeverity{
	infrav1.ReasonClaimLost:                 clusterv1.ConditionSeverityError,
	infrav1.ReasonHostLost:                  clusterv1.ConditionSeverityError,
	infrav1.ReasonProviderIDInvalid:         clusterv1.ConditionSeverityError,
	infrav1.ReasonFirstBootInterrupted:      clusterv1.ConditionSeverityError,
	infrav1.ReasonBootstrapFailed:           clusterv1.ConditionSeverityError,
	infrav1.ReasonFailureDomainConflict:     clusterv1.ConditionSeverityError,
	infrav1.ReasonOwnerMismatch:             clusterv1.ConditionSeverityError,
	infrav1.ReasonSelectorInvalid:           clusterv1.ConditionSeverityError,
	infrav1.ReasonTooManyFailureDomains:     clusterv1.ConditionSeverityError,
	infrav1.ReasonWaitingForMachineDeletion: clusterv1.ConditionSeverityError,

	infrav1.ReasonWaitingForClusterInfrastructure: clusterv1.ConditionSeverityInfo,
	infrav1.ReasonWaitingForBootstrapData:         clusterv1.ConditionSeverityInfo,
	infrav1.ReasonWaitingForEndpoint:              clusterv1.ConditionSeverityInfo,
	infrav1.ReasonWaitingForMachineHooks:          clusterv1.ConditionSeverityInfo,
	infrav1.ReasonInProgress:                      clusterv1.ConditionSeverityInfo,
	infrav1.ReasonProvisioning:                    clusterv1.ConditionSeverityInfo,
	infrav1.ReasonWaitingForBoot:                  clusterv1.ConditionSeverityInfo,
	infrav1.ReasonReleasing:                       clusterv1.ConditionSeverityInfo,
	infrav1.ReasonDeleting:                        clusterv1.ConditionSeverityInfo,
	infrav1.ReasonMachinesRemain:                  clusterv1.ConditionSeverityInfo,
}

// Severity returns the severity of a False condition with the reason.
func Severity(reason string) clusterv1.ConditionSeverity {
	if severity, ok := severities[reason]; ok {
		return severity
	}
	return clusterv1.ConditionSeverityWarning
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// Health is the overall health of a server as its BMC reports it.
type Health string

// The states. Empty: not read.
const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
	HealthUnknown  Health = "Unknown"
)

// IsUnhealthy reports whether the server is unhealthy.
func (h Health) IsUnhealthy() bool { return h == HealthWarning || h == HealthCritical }

// WorseThan compares two states. An unknown state equals HealthOK.
func (h Health) WorseThan(other Health) bool { return h.rank() > other.rank() }

func (h Health) rank() int {
	switch h {
	case HealthCritical:
		return 2
	case HealthWarning:
		return 1
	}
	return 0
}

// HealthOf returns the health in the status of a host. Empty: none.
func HealthOf(host *infrav1.IngotHost) Health {
	c := meta.FindStatusCondition(host.Status.Conditions, infrav1.HostHealthyCondition)
	if c == nil {
		return ""
	}
	switch c.Reason {
	case infrav1.ReasonHealthOK:
		return HealthOK
	case infrav1.ReasonHealthWarning:
		return HealthWarning
	case infrav1.ReasonHealthCritical:
		return HealthCritical
	}
	return ""
}

// IsCriticalRank returns 1 for a host in critical health, which is selected only if no other suits.
func IsCriticalRank(host *infrav1.IngotHost) int {
	if HealthOf(host) == HealthCritical {
		return 1
	}
	return 0
}

// healthy is the condition Healthy. Rules do not use it: a sensor must neither stop a cluster
// from growing nor a provisioned host from running.
func (in *input) healthy() metav1.Condition {
	const name = infrav1.HostHealthyCondition
	switch {
	case in.unmanaged():
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "The host has no BMC in spec.bmc.")
	case in.bmcProblem():
		return inventory.UnknownCondition(name, infrav1.ReasonHealthUnknown, "Ingot could not ask the BMC. See the condition "+infrav1.HostBMCReachableCondition+".")
	case in.obs.Health == HealthOK:
		return inventory.TrueCondition(name, infrav1.ReasonHealthOK, "The BMC reports no fault.")
	case in.obs.Health == HealthWarning:
		return in.ails(infrav1.ReasonHealthWarning, "Ingot uses the host as before.")
	case in.obs.Health == HealthCritical:
		return in.ails(infrav1.ReasonHealthCritical, "Ingot gives the host to a machine only if no other suits. To give it to none, set spec.maintenance.")
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonHealthUnknown, "The BMC reports no health.")
	}
}

// ails keeps the last message of the same state while the faulty parts are unknown, as after a
// restart of the manager.
func (in *input) ails(reason, remedy string) metav1.Condition {
	const name = infrav1.HostHealthyCondition
	was := meta.FindStatusCondition(in.host.Status.Conditions, name)
	if in.obs.HealthDetail == "" && was != nil && was.Reason == reason {
		return inventory.FalseCondition(name, reason, was.Message)
	}
	parts := in.obs.HealthDetail
	if parts == "" {
		parts = "it names no part, see its log"
	}
	return inventory.FalseCondition(name, reason, inventory.WithDetail(fmt.Sprintf("The BMC reports %s: ", in.obs.Health), parts, ". "+remedy))
}

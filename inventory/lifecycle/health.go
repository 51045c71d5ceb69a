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

// Health is how well a server is, as its BMC sums it up.
type Health string

// The states; empty: nobody asked.
const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
	HealthUnknown  Health = "Unknown"
)

// Ails says whether something is wrong.
func (h Health) Ails() bool { return h == HealthWarning || h == HealthCritical }

// WorseThan compares; what is not known is as good as well.
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

// HealthOf is the health that a host's status tells; empty: none.
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

// ailing is 1 for a host to be taken only when there is no other.
func Ailing(host *infrav1.IngotHost) int {
	if HealthOf(host) == HealthCritical {
		return 1
	}
	return 0
}

// healthy tells of the server's parts. It takes no part in what is done to the host: a
// sensor must not stop a cluster from growing, nor a provisioned host from running.
func (in *input) healthy() metav1.Condition {
	const name = infrav1.HostHealthyCondition
	switch {
	case in.unmanaged():
		return inventory.UnknownCondition(name, infrav1.ReasonUnmanaged, "the host has no BMC in spec.bmc")
	case in.bmcProblem():
		return inventory.UnknownCondition(name, infrav1.ReasonHealthUnknown, "the BMC could not be asked; see condition "+infrav1.HostBMCReachableCondition)
	case in.obs.Health == HealthOK:
		return inventory.TrueCondition(name, infrav1.ReasonHealthOK, "the BMC reports no fault")
	case in.obs.Health == HealthWarning:
		return in.ails(infrav1.ReasonHealthWarning, "repair it in time; the host works as before")
	case in.obs.Health == HealthCritical:
		return in.ails(infrav1.ReasonHealthCritical, "repair it; Ingot goes on with the host, and gives it to a machine only when no other host of the failure domain suits; set spec.maintenance to give it to none")
	default:
		return inventory.UnknownCondition(name, infrav1.ReasonHealthUnknown, "the BMC tells no health of the server")
	}
}

// ails keeps what was last told of the same state while the parts are not known: a
// manager that has just started, and a BMC that does not get to them, is no news.
func (in *input) ails(reason, remedy string) metav1.Condition {
	const name = infrav1.HostHealthyCondition
	was := meta.FindStatusCondition(in.host.Status.Conditions, name)
	if in.obs.HealthDetail == "" && was != nil && was.Reason == reason {
		return inventory.FalseCondition(name, reason, was.Message)
	}
	parts := in.obs.HealthDetail
	if parts == "" {
		parts = "it names no part; its own log may"
	}
	return inventory.FalseCondition(name, reason, fmt.Sprintf("the BMC reports %s: %s; %s", in.obs.Health, parts, remedy))
}

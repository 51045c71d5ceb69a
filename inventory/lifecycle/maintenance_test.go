// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import infrav1 "github.com/ingot-metal/ingot/api/v1beta2"

// checkMaintenance: what an agent has begun it ends, and nothing else is done to a free host
// in maintenance, which a person may have switched on (I19).
func (w *world) checkMaintenance(host *infrav1.IngotHost, d Decision, harmless bool) {
	if inMaintenance(host) && host.Spec.Order != nil && host.Spec.Order.AgentKey == "" && !harmless && !w.deleting {
		w.violate("I19: a host in maintenance, which no agent has, is acted on by %s", d.Rule)
	}
	if d.Reason == infrav1.ReasonMaintenance && (host.Spec.Maintenance == nil || !*host.Spec.Maintenance) {
		w.violate("%s tells of a maintenance that is none", d.Rule)
	}
}

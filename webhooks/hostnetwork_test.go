// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// While a system is installed with the address recorded for its host, the host keeps the
// NIC and the network that it was recorded for.
func TestHostKeepsRecordedAddress(t *testing.T) {
	const boot = "52:54:00:00:00:01"
	for name, tc := range map[string]struct {
		state     v1beta2.ClaimState
		addresses []string
		recorded  *v1beta2.RecordedAddress
		change    func(*v1beta2.IngotHost)
		want      string
	}{
		"another network": {v1beta2.ClaimProvisioning, []string{"10.20.0.7", "10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, "spec.networkRef.name"},
		"another NIC": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.BootMACAddress = "52:54:00:00:00:02" }, "spec.bootMACAddress"},
		"the same": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Labels = map[string]string{"row": "1"} }, ""},
		"installed": {v1beta2.ClaimProvisioned, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"released": {v1beta2.ClaimReleasing, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"with addresses of a pool": {v1beta2.ClaimProvisioning, []string{"10.20.0.7"}, &v1beta2.RecordedAddress{NetworkName: "net", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"back to where it was recorded": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, &v1beta2.RecordedAddress{NetworkName: "other", MAC: boot, IP: "10.10.0.20"},
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
		"nothing recorded": {v1beta2.ClaimProvisioning, []string{"10.10.0.20"}, nil,
			func(h *v1beta2.IngotHost) { h.Spec.NetworkRef.Name = "other" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before, facts := claimed("h1"), &v1beta2.IngotHardware{}
			facts.Namespace, facts.Name, facts.Spec.Address = before.Namespace, before.Name, tc.recorded
			before.Spec.NetworkRef.Name = "net"
			before.Spec.Claim.State, before.Spec.Claim.Network = tc.state, &v1beta2.ClaimedNetwork{Addresses: tc.addresses}
			after := before.DeepCopy()
			tc.change(after)
			_, err := newHostValidator(t, "ingot", facts).ValidateUpdate(t.Context(), before, after)
			checkRefusal(t, err, tc.want)
		})
	}
}

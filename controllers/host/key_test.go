// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// TestKeyFor: a BMC that fails is left alone through all that a machine does with its
// host, and asked at once when what it is reached by has changed.
func TestKeyFor(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		change  func(*infrav1.IngotHost)
		version string
		again   bool
	}{
		"nothing":      {func(*infrav1.IngotHost) {}, "v", false},
		"a claim":      {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Claim = &infrav1.HostClaim{InstanceID: "i"} }, "v", false},
		"a record":     {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Record = &infrav1.HostRecord{} }, "v", false},
		"an order":     {func(h *infrav1.IngotHost) { h.Generation++; h.Spec.Order = &infrav1.HostOrder{} }, "v", false},
		"the address":  {func(h *infrav1.IngotHost) { h.Spec.BMC.Address += "0" }, "v", true},
		"the Secret":   {func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = "other" }, "v", true},
		"the pin":      {func(h *infrav1.IngotHost) { h.Spec.BMC.CertificateFingerprint = "sha256:x" }, "v", true},
		"the CA":       {func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca"} }, "v", true},
		"no trust":     {func(h *infrav1.IngotHost) { h.Spec.BMC.InsecureSkipVerify = ptr.To(true) }, "v", true},
		"its contents": {func(*infrav1.IngotHost) {}, "w", true},
		"a person asks": {func(h *infrav1.IngotHost) {
			h.Annotations = map[string]string{infrav1.RetryBMCAnnotation: commandAt(time.Unix(1000, 0))}
		}, "v", true},
		"what it is to": {func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff }, "v", false},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Spec.BMC = &infrav1.BMC{Address: "redfish://b", CredentialsRef: infrav1.LocalReference{Name: "s"}}
			known := contact{}.under(keyFor(host, "v"))
			known = known.failed(lifecycle.BMCTimeout, "slow", now, DefaultWaits())
			tc.change(host)
			if after := known.under(keyFor(host, tc.version)); after.retryAt.IsZero() != tc.again {
				t.Errorf("tried again at %s, want at once: %t", after.retryAt, tc.again)
			}
		})
	}
}

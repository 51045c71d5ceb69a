// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
)

// drivers simulates a Redfish driver with all capabilities, IPMI drivers with some, and one vendor
// driver.
func drivers() BMCs {
	return BMCs{
		Check: func(address string) error {
			if strings.HasPrefix(address, "vendor+") && !strings.HasPrefix(address, "vendor+asrockrack://") {
				return errors.New("no driver for vendor+x://")
			}
			return nil
		},
		Offers: func(address string) ([]bmc.Capability, bool) {
			switch scheme, _, _ := strings.Cut(address, "://"); scheme {
			case "redfish":
				return []bmc.Capability{bmc.CapSettings, bmc.CapFirmware, bmc.CapFirmwareFetch, bmc.CapAccounts, bmc.CapMedia, bmc.CapSecureBoot}, true
			case "ipmi": // reports versions, but installs no image
				return []bmc.Capability{bmc.CapFirmware, bmc.CapAccounts}, true
			case "vendor+asrockrack":
				return []bmc.Capability{bmc.CapFirmware, bmc.CapFirmwarePush}, true
			case "vendor+old":
				return nil, true
			}
			return nil, false
		},
	}
}

// A spec that requires an unsupported capability is rejected with field and remedy. An address
// without a scheme is accepted, because its driver is unknown.
func TestCapabilities(t *testing.T) {
	host := func(address string, changes ...func(*v1beta2.IngotHost)) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h1"}}
		h.Spec.BootMACAddress = "52:54:00:00:00:01"
		if address != "" {
			h.Spec.BMC = &v1beta2.BMC{Address: address}
		}
		for _, change := range changes {
			change(h)
		}
		return h
	}
	settings := func(h *v1beta2.IngotHost) {
		h.Spec.BIOS = &v1beta2.BIOSConfiguration{Settings: map[string]string{"LogicalProc": "Enabled", "BootMode": "Uefi"}}
	}
	firmware := func(h *v1beta2.IngotHost) {
		h.Spec.Firmware = []v1beta2.FirmwareComponent{{Component: "BIOS", Version: "2.19.1", URL: "https://images.example/bios"}}
	}
	checksum := func(h *v1beta2.IngotHost) { h.Spec.Firmware[0].Checksum = "sha256:" + strings.Repeat("1", 64) }
	labeled := func(h *v1beta2.IngotHost) { h.Labels = map[string]string{"a": "b"} }
	media := func(h *v1beta2.IngotHost) { h.Spec.BootMethod = v1beta2.BootMethodVirtualMedia }
	secure := func(h *v1beta2.IngotHost) {
		h.Spec.BootMethod, h.Spec.BootMode = v1beta2.BootMethodHTTP, v1beta2.BootModeUEFISecureBoot
	}
	rotate := func(h *v1beta2.IngotHost) {
		h.Annotations = map[string]string{v1beta2.RotateCredentialsAnnotation: commandTime().Format(time.RFC3339)}
	}
	recorded := func(h *v1beta2.IngotHost) { h.Spec.Record = &v1beta2.HostRecord{} }
	tests := []struct {
		name          string
		before, after *v1beta2.IngotHost
		wantField     string
		wantText      string
	}{
		{"nothing asked for", nil, host("ipmi://h"), "", ""},
		{"settings by Redfish", nil, host("redfish://h", settings, firmware, rotate), "", ""},
		{"settings by IPMI", nil, host("ipmi://h", settings), "spec.bios.settings",
			`spec.bios.settings: Invalid value: "BootMode, LogicalProc": requires BIOS settings, which the driver of ipmi:// in spec.bmc.address ` +
				"does not support; remove it, or use the BMC's redfish:// address"},
		{"firmware by IPMI", nil, host("ipmi://h", firmware), "spec.firmware[0].component", `"BIOS"`},
		{"firmware that can only be pushed", nil, host("vendor+asrockrack://h", firmware, checksum), "", ""},
		{"firmware that can only be pushed, without a checksum", nil, host("vendor+asrockrack://h", firmware), "spec.firmware[0].checksum",
			"requires a checksum; set it to sha256:<output of sha256sum"},
		{"unchanged firmware that can only be pushed", host("vendor+asrockrack://h", firmware), host("vendor+asrockrack://h", firmware, labeled), "", ""},
		{"settings where only firmware can be pushed", nil, host("vendor+asrockrack://h", settings), "spec.bios.settings", ""},
		{"virtual media and Secure Boot by Redfish", nil, host("redfish://h", media, secure), "", ""},
		{"virtual media by IPMI", nil, host("ipmi://h", media), "spec.bootMethod", `"VirtualMedia": requires virtual media`},
		{"Secure Boot by IPMI", nil, host("ipmi://h", secure), "spec.bootMode", `"UEFISecureBoot": requires Secure Boot`},
		{"rotation by IPMI", nil, host("ipmi://h", rotate), "", ""},
		{"a host alone", nil, host("h", settings, firmware), "", ""},
		{"no BMC", nil, host("", settings), "", ""},
		{"added later", host("ipmi://h"), host("ipmi://h", settings), "spec.bios.settings", ""},
		{"unchanged", host("ipmi://h", settings), host("ipmi://h", settings, rotate), "", ""},
		{"another address", host("redfish://h", settings), host("ipmi://h", settings), "spec.bios.settings", ""},
		{"from a host alone to IPMI", host("h", firmware), host("ipmi://h", firmware), "spec.firmware[0].component", ""},
		{"unknown driver", nil, host("vendor+x://h"), "spec.bmc.address", "no driver for vendor+x://"},
		{"unsupported rotation", host("vendor+old://h"), host("vendor+old://h", rotate),
			"metadata.annotations[" + v1beta2.RotateCredentialsAnnotation + "]", "password rotation"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newHostValidator(t, "ingot")
			v.bmcs = drivers()
			var err error
			if tt.before == nil {
				_, err = v.ValidateCreate(request(t.Context(), "alice"), tt.after)
			} else {
				_, err = v.ValidateUpdate(request(t.Context(), "alice"), tt.before, tt.after)
			}
			checkRefusal(t, err, tt.wantField)
			if err != nil && !strings.Contains(err.Error(), tt.wantText) {
				t.Errorf("%v, want %q", err, tt.wantText)
			}
		})
	}
	t.Run("moved host", func(t *testing.T) {
		v := newHostValidator(t, "ingot")
		v.bmcs = drivers()
		_, err := v.ValidateCreate(request(t.Context(), "ingot"), host("ipmi://h", settings, recorded))
		checkRefusal(t, err, "")
	})
	t.Run("no driver information", func(t *testing.T) {
		_, err := newHostValidator(t, "ingot").ValidateCreate(request(t.Context(), "alice"), host("ipmi://h", settings))
		checkRefusal(t, err, "")
	})
}

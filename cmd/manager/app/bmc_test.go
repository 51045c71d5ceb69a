// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// Webhooks and drivers, which parse addresses separately, accept the same addresses, also in the
// normalized form.
func TestWebhooksAndDriversAcceptTheSameAddresses(t *testing.T) {
	dialer := NewDialer()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // send nothing
	refused := func(address string) bool {
		_, err := dialer.Dial(ctx, bmc.Target{Address: address, Username: "admin", Password: "canary"})
		return errors.Is(err, bmc.ErrAddress)
	}
	for _, address := range []string{
		"redfish://192.0.2.9", "REDFISH://bmc-9.example.:8443/", "redfish://[2001:db8::9]/redfish/v1/Systems/a%20b", "redfish+http://192.0.2.9/redfish/v1/Systems/1",
		"ipmi://192.0.2.9", "ipmi://[2001:db8::9]:6230/", "vendor+dell://192.0.2.9", "vendor+dell://[2001:db8::9]:8443",
		"192.0.2.9", "192.0.2.9:8443", "bmc-9.example", "2001:db8::9", "[2001:db8::9]", "[2001:db8::9]:8443", "::ffff:192.0.2.9",
	} {
		parsed, err := bmcaddress.Parse(address)
		if err != nil {
			t.Errorf("the webhook rejects %s: %v", address, err)
			continue
		}
		for _, form := range []string{address, parsed.String()} {
			if refused(form) {
				t.Errorf("no driver accepts %s", form)
			}
			if err := dialer.Check(form); err != nil {
				t.Errorf("%s: %v", form, err)
			}
			_, known := dialer.Offers(form)
			if bare := parsed.Scheme == bmcaddress.Bare; known == bare {
				t.Errorf("%s: offers known: %v", form, known)
			}
		}
	}
	for _, address := range []string{
		"", "https://192.0.2.9", "vendor+nobody://192.0.2.9", "192.0.2.9/redfish/v1/Systems/1", "ipmi://192.0.2.9/redfish/v1/Systems/1",
		"redfish://u@192.0.2.9", "u@192.0.2.9", "ipmi://u:p@192.0.2.9", "vendor+dell://u:p@192.0.2.9", "redfish://192.0.2.9?x", "redfish://192.0.2.9/redfish/v1/Systems/..",
	} {
		if !refused(address) {
			t.Errorf("a driver accepts %s", address)
		}
		if _, err := bmcaddress.Parse(address); err == nil && dialer.Check(address) == nil {
			t.Errorf("the webhook accepts %s", address)
		}
	}
}

// Redfish offers all capabilities of host specs, and IPMI some.
func TestOffers(t *testing.T) {
	dialer := NewDialer()
	for scheme, want := range map[string]string{
		"redfish://h":           "Settings FirmwareFetch FirmwarePush Accounts",
		"redfish+http://h":      "Settings FirmwareFetch FirmwarePush Accounts",
		"ipmi://h":              "Accounts",
		"vendor+asrockrack://h": "FirmwarePush",
	} {
		offers, _ := dialer.Offers(scheme)
		var got []string
		for _, capability := range []bmc.Capability{bmc.CapSettings, bmc.CapFirmwareFetch, bmc.CapFirmwarePush, bmc.CapAccounts} {
			for _, offered := range offers {
				if offered == capability {
					got = append(got, string(capability))
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s offers %v, want %s", scheme, got, want)
		}
	}
}

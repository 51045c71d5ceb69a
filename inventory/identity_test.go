// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

func TestWrongServer(t *testing.T) {
	const (
		uuid    = "12345678-9abc-def0-1234-56789abcdef0"
		swapped = "78563412-bc9a-f0de-1234-56789abcdef0"
		back    = "f0debc9a-7856-3412-f0de-bc9a78563412"
		other   = "00112233-4455-6677-8899-aabbccddeeff"
	)
	inspected := SystemIdentity{UUID: uuid, SerialNumber: "ABC123"}
	for _, tc := range []struct {
		name       string
		told       SystemIdentity
		macMissing bool
		change     func(*infrav1.IngotHost)
		wrong      bool
	}{
		{name: "the same", told: inspected},
		{name: "nothing is told", told: SystemIdentity{}, macMissing: true},
		{name: "upper case", told: SystemIdentity{UUID: strings.ToUpper(uuid), SerialNumber: "abc123 "}},
		{name: "Dell: serial number of the board", told: SystemIdentity{UUID: uuid, SerialNumber: "CN7475"}, macMissing: true},
		{name: "first fields swapped", told: SystemIdentity{UUID: swapped, SerialNumber: "CN7475"}, macMissing: true},
		{name: "all bytes reversed", told: SystemIdentity{UUID: back, SerialNumber: "CN7475"}, macMissing: true},
		{name: "a BMC's own GUID, the same serial number", told: SystemIdentity{UUID: other, SerialNumber: "ABC123"}, macMissing: true},
		{name: "a default UUID and serial number", told: SystemIdentity{UUID: "00020003-0004-0005-0006-000700080009", SerialNumber: "To be filled by O.E.M."}, macMissing: true},
		{name: "only the UUID differs", told: SystemIdentity{UUID: other}},
		{name: "only the serial number differs", told: SystemIdentity{SerialNumber: "XYZ"}},
		{name: "only the NIC is missing", told: SystemIdentity{}, macMissing: true},
		{name: "both differ", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"}, wrong: true},
		{name: "the UUID differs and the NIC is missing", told: SystemIdentity{UUID: other}, macMissing: true, wrong: true},
		{name: "the serial number differs and the NIC is missing", told: SystemIdentity{SerialNumber: "XYZ"}, macMissing: true, wrong: true},
		{
			name: "a person wants it known anew", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"},
			change: func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.InspectAnnotation: "2026-03-04T05:06:07Z"}
			},
		},
		{
			name: "and it is being inspected", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"},
			change: func(h *infrav1.IngotHost) {
				h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: "o", Attempt: 1}
			},
		},
		{
			name: "inspected for its settings, which nobody asked for", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"}, wrong: true,
			change: func(h *infrav1.IngotHost) {
				h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: "o", Attempt: 1}
				h.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Attempt: 1}}
			},
		},
		{
			name: "inspected for an update", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"}, wrong: true,
			change: func(h *infrav1.IngotHost) {
				h.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: "o", Attempt: 1}
				h.Spec.Record = &infrav1.HostRecord{Preparation: &infrav1.HostPreparation{Update: &infrav1.FirmwareUpdate{}}}
			},
		},
		{
			name: "asked for while a machine holds it", told: SystemIdentity{UUID: other, SerialNumber: "XYZ"}, wrong: true,
			change: func(h *infrav1.IngotHost) {
				h.Annotations = map[string]string{infrav1.InspectAnnotation: "2026-03-04T05:06:07Z"}
				h.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			if tc.change != nil {
				tc.change(host)
			}
			got := WrongServer(host, inspected, tc.told, tc.macMissing)
			if (got != "") != tc.wrong {
				t.Errorf("said %q", got)
			}
			if tc.wrong && !strings.Contains(got, inspected.UUID) {
				t.Errorf("%q does not name what was inspected", got)
			}
		})
	}
}

func TestIsDistinct(t *testing.T) {
	const uuid, board = "12345678-9abc-def0-1234-56789abcdef0", "00020003-0004-0005-0006-000700080009"
	for name, tc := range map[string]struct {
		uuid, serial string
		want         bool
	}{
		"both":                         {uuid, "ABC123", true},
		"the UUID of a board":          {board, "ABC123", true},
		"the serial number of a board": {uuid, "Default string", true},
		"both of a board":              {board, "Default string", false},
		"no serial number":             {uuid, "", false},
		"no UUID":                      {"", "ABC123", false},
	} {
		if got := IsDistinct(tc.uuid, tc.serial); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

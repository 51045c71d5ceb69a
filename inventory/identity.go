// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// SystemIdentity identifies a server by its BMC or firmware. Both fields may be empty or have a
// vendor's default.
type SystemIdentity struct {
	UUID, SerialNumber string
}

// likeness is the result of a comparison.
type likeness int

const (
	unknowable likeness = iota
	same
	different
)

// WrongServer returns how the BMC's server differs from the inspected one: spec.bmc.address is wrong,
// or the mainboard was replaced. Empty: it does not differ, or that is unknown.
//
// BMCs are unreliable: some report the serial number of the board (Dell, whose service tag is the
// SKU), UUIDs in another byte order, or a vendor's default. So two facts must differ and none
// agree: UUID and serial number, or one of them and a list of NICs without the boot MAC address
// (macMissing).
func WrongServer(host *infrav1.IngotHost, inspected, told SystemIdentity, macMissing bool) string {
	if _, asked := PendingCommand(host, infrav1.InspectAnnotation); host.Spec.Claim == nil && (asked || inspectionRequested(host)) {
		return "" // an operator requested an inspection
	}
	uuids, serials := likeUUIDs(inspected.UUID, told.UUID), likeSerials(inspected.SerialNumber, told.SerialNumber)
	against := 0
	for _, speaks := range []bool{uuids == different, serials == different, macMissing} {
		if speaks {
			against++
		}
	}
	if uuids == same || serials == same || against < 2 || uuids != different && serials != different {
		return ""
	}
	return fmt.Sprintf("UUID %s, serial number %s, but UUID %s, serial number %s was inspected",
		orNone(told.UUID), orNone(told.SerialNumber), orNone(inspected.UUID), orNone(inspected.SerialNumber))
}

// inspectionRequested reports whether an operator requested the running inspection. One for settings
// or firmware does not permit another server.
func inspectionRequested(host *infrav1.IngotHost) bool {
	order, record := host.Spec.Order, host.Spec.Record
	if order == nil || order.Kind != infrav1.OrderInspect {
		return false
	}
	return record == nil || record.Preparation == nil || record.Preparation.Attempt == 0 && record.Preparation.Update == nil
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return Truncate(text, 64)
}

// likeUUIDs compares two UUIDs without case, and in the byte orders that firmware and BMCs use: as
// written, the first three fields swapped (SMBIOS 2.6 and earlier), all bytes reversed (IPMI v2.0
// section 20.8).
func likeUUIDs(a, b string) likeness {
	x, y := UUIDBytes(a), UUIDBytes(b)
	if x == nil || y == nil {
		return unknowable
	}
	swapped := slices.Clone(y)
	slices.Reverse(swapped[0:4])
	slices.Reverse(swapped[4:6])
	slices.Reverse(swapped[6:8])
	reversed := slices.Clone(y)
	slices.Reverse(reversed)
	for _, form := range [][]byte{y, swapped, reversed} {
		if slices.Equal(x, form) {
			return same
		}
	}
	return different
}

// UUIDBytes parses a UUID. It returns nil for an invalid UUID or a vendor's default: one repeated
// byte (zeroes, ff), or a sequence (00020003-0004-0005-0006-000700080009).
func UUIDBytes(text string) []byte {
	raw, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(text), "-", ""))
	if err != nil || len(raw) != 16 {
		return nil
	}
	if !slices.ContainsFunc(raw, func(b byte) bool { return b != raw[0] }) {
		return nil
	}
	if hex.EncodeToString(raw) == "00020003000400050006000700080009" || hex.EncodeToString(raw) == "03000200040005000006000700080009" {
		return nil
	}
	return raw
}

// IsDistinct reports whether a UUID and a serial number identify a server: both are set, and at
// least one is not a vendor's default.
func IsDistinct(uuid, serial string) bool {
	return uuid != "" && serial != "" && (UUIDBytes(uuid) != nil || usableSerial(serial) != "")
}

func likeSerials(a, b string) likeness {
	a, b = usableSerial(a), usableSerial(b)
	switch {
	case a == "" || b == "":
		return unknowable
	case a == b:
		return same
	default:
		return different
	}
}

// usableSerial returns the normalized serial number. Empty: it is a vendor's default.
func usableSerial(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	switch text {
	case "to be filled by o.e.m.", "default string", "none", "not specified", "not available", "n/a", "unknown",
		"system serial number", "chassis serial number", "0123456789", "123456789", "1234567890", "oem":
		return ""
	}
	if strings.Trim(text, "0 .-") == "" {
		return ""
	}
	return text
}

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

// SystemIdentity is what tells one server from another, as its BMC or its firmware
// says it. Both fields may be empty, or what a maker left in them.
type SystemIdentity struct {
	UUID, SerialNumber string
}

// likeness is the result of a comparison that may be impossible.
type likeness int

const (
	unknowable likeness = iota
	same
	different
)

// WrongServer says, for people, that the BMC manages another server than the one
// that was inspected under this host's name: spec.bmc.address leads elsewhere, or the
// mainboard was replaced. "" when it does not, or when that cannot be known.
//
// BMCs are not believed easily: some tell the serial number of the board (Dell, whose
// service tag is the SKU), UUIDs in another byte order, or a maker's default. So two
// things must speak against the server and nothing for it: UUID and serial number, or
// one of them and a list of NICs without the boot MAC address (macMissing).
func WrongServer(host *infrav1.IngotHost, inspected, told SystemIdentity, macMissing bool) string {
	if _, asked := PendingCommand(host, infrav1.InspectAnnotation); host.Spec.Claim == nil && (asked || inspectedAnew(host)) {
		return "" // a person wants it known anew
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
	return fmt.Sprintf("UUID %s, serial number %s, where UUID %s, serial number %s was inspected",
		orNone(told.UUID), orNone(told.SerialNumber), orNone(inspected.UUID), orNone(inspected.SerialNumber))
}

// inspectedAnew: the inspection under way was asked for. One that Ingot orders by itself,
// for settings or firmware, gives no leave to take another server for the host's.
func inspectedAnew(host *infrav1.IngotHost) bool {
	order, record := host.Spec.Order, host.Spec.Record
	if order == nil || order.Kind != infrav1.OrderInspect {
		return false
	}
	return record == nil || record.Preparation == nil || record.Preparation.Attempts == 0 && record.Preparation.Update == nil
}

func orNone(text string) string {
	if text == "" {
		return "(none)"
	}
	return Truncate(text, 64)
}

// likeUUIDs compares two UUIDs in any case and in the byte orders that firmware and
// BMCs disagree on: as written, the first three fields swapped (SMBIOS 2.6 and its
// forerunners), all bytes reversed (IPMI v2.0 §20.8).
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

// uuidBytes is nil for what is no UUID, or one that many servers have: of one byte
// over and over (zeroes, ff), or counted up (00020003-0004-0005-0006-000700080009).
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

// IsDistinct says whether a UUID and a serial number, as firmware tells them, tell one
// server from another: at least one of the two is not what a maker leaves in all of a
// board.
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

// usableSerial is "" for what makers write where they write nothing.
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

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/ingot-metal/ingot/bmc"
)

// Identity implements bmc.Inventorier: Get System GUID, Get Device ID, Get Device
// GUID (§20.1, §20.8, §22.14) and the FRU of the BMC. What a BMC does not know is
// empty.
func (c *conn) Identity(ctx context.Context) (bmc.Identity, error) {
	var id bmc.Identity
	data, err := c.run(ctx, command{what: "read device ID", netFn: netFnApp, code: 0x01, least: 5})
	if err != nil {
		return id, err
	}
	id.BMCFirmware = firmwareVersion(data)
	if id.UUID, err = c.guid(ctx, "read system GUID", 0x37); err != nil {
		return id, err
	}
	if id.BMCUUID, err = c.guid(ctx, "read device GUID", 0x08); err != nil {
		return id, err
	}
	f, err := c.fru(ctx)
	if err != nil {
		return id, err
	}
	id.Serial, id.Manufacturer, id.Model = f.serial(), f.manufacturer(), f.model()
	return id, nil
}

// Inventory implements bmc.Inventorier. IPMI tells nothing of processors and
// memory, and of network interfaces only the BMC's own.
func (c *conn) Inventory(ctx context.Context) (bmc.Inventory, error) {
	id, err := c.Identity(ctx)
	return bmc.Inventory{Identity: id}, err
}

// FirmwareInventory implements bmc.Firmware with the one version that IPMI tells:
// the BMC's.
func (c *conn) FirmwareInventory(ctx context.Context) ([]bmc.FirmwareItem, error) {
	data, err := c.run(ctx, command{what: "read device ID", netFn: netFnApp, code: 0x01, least: 5})
	if err != nil {
		return nil, err
	}
	return []bmc.FirmwareItem{{ID: "BMC", Name: "BMC", Version: firmwareVersion(data)}}, nil
}

// firmwareVersion is the revision in Get Device ID: major, and minor as BCD.
func firmwareVersion(id []byte) string { return fmt.Sprintf("%d.%02x", id[2]&0x7f, id[3]) }

// guid reads a GUID; empty: the BMC has none.
func (c *conn) guid(ctx context.Context, what string, code byte) (string, error) {
	data, err := c.run(ctx, command{what: what, netFn: netFnApp, code: code, least: 16})
	if isCode(err, 0xc1, 0xc2, 0xcb, 0xcc, 0xd5, 0xd6, 0xff) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return parseGUID([16]byte(data[:16])), nil
}

// parseGUID makes a UUID of a GUID. Makers send it in one of three orders: as
// SMBIOS has it (the first three fields little-endian), as IPMI wants it (the
// whole reversed, §20.8), or as RFC 4122 writes it. The order is the first in
// which version and variant (RFC 4122 §4.1.1, §4.1.3) make sense; SMBIOS's where
// none does. That is a guess: who compares UUIDs tries the other orders too. All zeroes and all ones are no GUID.
func parseGUID(g [16]byte) string {
	if g == [16]byte{} {
		return ""
	}
	ones := true
	for _, b := range g {
		ones = ones && b == 0xff
	}
	if ones {
		return ""
	}
	smbios := swapFields(g)
	var reversed [16]byte
	for i, b := range g {
		reversed[15-i] = b
	}
	for _, u := range [][16]byte{smbios, reversed, g} {
		if version := u[6] >> 4; version >= 1 && version <= 5 && u[8]>>6 == 0b10 {
			return formatUUID(u)
		}
	}
	return formatUUID(smbios)
}

// swapFields swaps the byte order of the first three fields.
func swapFields(g [16]byte) [16]byte {
	out := g
	binary.BigEndian.PutUint32(out[0:], binary.LittleEndian.Uint32(g[0:]))
	binary.BigEndian.PutUint16(out[4:], binary.LittleEndian.Uint16(g[4:]))
	binary.BigEndian.PutUint16(out[6:], binary.LittleEndian.Uint16(g[6:]))
	return out
}

func formatUUID(u [16]byte) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

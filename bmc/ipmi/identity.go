// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipmi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ingot-metal/ingot/bmc"
)

// Identity implements bmc.Inventorier with Get System GUID, Get Device ID, Get Device GUID
// (§20.1, §20.8, §22.14) and the FRU of the BMC. Unknown values are empty.
func (c *conn) Identity(ctx context.Context) (bmc.Identity, error) {
	var id bmc.Identity
	data, err := c.run(ctx, command{what: "read device ID", netFn: netFnApp, code: 0x01, minLen: 5})
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

// Inventory implements bmc.Inventorier. IPMI reports no processors or memory, and only the
// BMC's own network interfaces.
func (c *conn) Inventory(ctx context.Context) (bmc.Inventory, error) {
	id, err := c.Identity(ctx)
	return bmc.Inventory{Identity: id}, err
}

// FirmwareInventory implements bmc.Firmware with the BMC's own version.
func (c *conn) FirmwareInventory(ctx context.Context) ([]bmc.FirmwareItem, error) {
	data, err := c.run(ctx, command{what: "read device ID", netFn: netFnApp, code: 0x01, minLen: 5})
	if err != nil {
		return nil, err
	}
	return []bmc.FirmwareItem{{ID: "BMC", Name: "BMC", Version: firmwareVersion(data)}}, nil
}

// firmwareVersion returns the revision in Get Device ID: major, and minor as BCD.
func firmwareVersion(id []byte) string { return fmt.Sprintf("%d.%02x", id[2]&0x7f, id[3]) }

// guid reads a GUID; empty: the BMC has none.
func (c *conn) guid(ctx context.Context, what string, code byte) (string, error) {
	data, err := c.run(ctx, command{what: what, netFn: netFnApp, code: code, minLen: 16})
	if isCode(err, 0xc1, 0xc2, 0xcb, 0xcc, 0xd5, 0xd6, 0xff) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return parseGUID([16]byte(data[:16])), nil
}

// parseGUID converts a GUID to a UUID. Vendors send it in one of three orders: that of SMBIOS
// (the first three fields little-endian), that of IPMI (all bytes reversed, §20.8), or that
// of RFC 4122. The result is the first order with a valid version and variant (RFC 4122
// §4.1.1, §4.1.3), or else SMBIOS's. That is a guess, so comparisons of UUIDs must try the
// other orders too. All zeros and all ones mean no GUID.
func parseGUID(g [16]byte) string {
	if g == [16]byte{} || g == [16]byte(bytes.Repeat([]byte{0xff}, 16)) {
		return ""
	}
	smbios, reversed := swapFields(g), g
	slices.Reverse(reversed[:])
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

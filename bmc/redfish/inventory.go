// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// Identity implements bmc.Inventorier. What the BMC does not tell is empty.
func (c *conn) Identity(ctx context.Context) (bmc.Identity, error) {
	c.begin(ctx)
	system, err := c.readSystem()
	if err == nil {
		var id bmc.Identity
		if id, err = c.identity(system); err == nil {
			return id, nil
		}
	}
	return bmc.Identity{}, fmt.Errorf("read identity: %w", err)
}

func (c *conn) identity(system *systemResource) (bmc.Identity, error) {
	id := bmc.Identity{
		SystemID:     system.ID,
		UUID:         strings.ToLower(strings.TrimSpace(system.UUID)),
		Serial:       strings.TrimSpace(system.SerialNumber),
		Manufacturer: strings.TrimSpace(system.Manufacturer),
		Model:        strings.TrimSpace(system.Model),
	}
	if id.SystemID == "" {
		id.SystemID = c.system
	}
	manager, _, err := c.manager(system)
	if err != nil {
		return id, optional(err)
	}
	id.BMCFirmware = strings.TrimSpace(manager.FirmwareVersion)
	id.BMCUUID = strings.ToLower(strings.TrimSpace(manager.UUID))
	return id, nil
}

// managerPath is the manager that the system names, else the first of all.
func (c *conn) managerPath(system *systemResource) (string, error) {
	var paths []string
	for _, m := range system.Links.ManagedBy {
		if m.ID != "" {
			paths = append(paths, m.ID)
		}
	}
	if len(paths) == 0 && c.root.Managers.ID != "" {
		var err error
		if paths, err = c.members(c.root.Managers.ID); err != nil {
			return "", err
		}
	}
	if len(paths) == 0 {
		return "", nil
	}
	return slices.Min(paths), nil
}

// optional forgives what a BMC cannot tell. A BMC that cannot be talked to is not
// forgiven: it might tell another time.
func optional(err error) error {
	if errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol) {
		return nil
	}
	return err
}

// Inventory implements bmc.Inventorier. It is read in parts, see inParts.
func (c *conn) Inventory(ctx context.Context) (bmc.Inventory, error) {
	c.begin(ctx)
	var inv bmc.Inventory
	err := c.inParts(bmc.CallInventory, func() error { return c.readInventory(&inv) })
	if err != nil {
		return bmc.Inventory{}, fmt.Errorf("read inventory: %w", err)
	}
	return inv, nil
}

func (c *conn) readInventory(inv *bmc.Inventory) error {
	system, err := c.readSystem()
	if err != nil {
		return err
	}
	if inv.Identity, err = c.identity(system); err != nil {
		return err
	}
	if inv.MACs, err = c.macs(system); err != nil {
		return err
	}
	if inv.Cores, err = c.cores(system); err != nil {
		return err
	}
	inv.MemoryBytes = memoryBytes(system)
	return nil
}

func memoryBytes(system *systemResource) int64 {
	gib, err := strconv.ParseFloat(string(system.MemorySummary.TotalGiB), 64)
	if err != nil || gib <= 0 || gib > 1<<20 {
		return 0
	}
	return int64(math.Round(gib * (1 << 30)))
}

// cores counts physical cores: the summary tells (ComputerSystem v1.14 and
// later), or the processors do. 0 where neither does.
func (c *conn) cores(system *systemResource) (int32, error) {
	if n := system.ProcessorSummary.CoreCount; n > 0 || system.Processors.ID == "" {
		return max(n, 0), nil
	}
	paths, err := c.members(system.Processors.ID)
	if err != nil {
		return 0, optional(err)
	}
	var sum int32
	for _, path := range paths {
		var p processorResource
		if err := c.get(path, &p); err != nil {
			return 0, optional(err)
		}
		if p.Type == "" || p.Type == "CPU" {
			sum += min(max(p.Cores, 0), 1<<16)
		}
	}
	return sum, nil
}

// macs lists the addresses of the network interfaces. Nil: the BMC cannot tell,
// or could not tell of one of them, so that the list would be short (I8). Interfaces
// without a card in use among them are not all that there is: Lenovo's shows a disabled
// placeholder there, and the cards below NetworkInterfaces.
func (c *conn) macs(system *systemResource) ([]string, error) {
	var interfaces, functions []macResource
	if path := system.EthernetInterfaces.ID; path != "" {
		paths, err := c.members(path)
		if err == nil {
			interfaces, err = collect(paths, func(path string) (m macResource, err error) { return m, c.get(path, &m) })
			if err != nil || slices.ContainsFunc(interfaces, macResource.serves) {
				return addresses(interfaces), optional(err)
			}
		}
		if err := optional(err); err != nil {
			return nil, err
		}
	}
	if system.NetworkInterfaces.ID == "" {
		return nil, nil
	}
	paths, err := c.functions(system.NetworkInterfaces.ID)
	if err == nil {
		functions, err = collect(paths, func(path string) (macResource, error) {
			var f networkFunctionResource
			err := c.get(path, &f)
			return f.Ethernet, err
		})
	}
	if err != nil || len(addresses(functions)) == 0 {
		return nil, optional(err)
	}
	return addresses(append(interfaces, functions...)), nil
}

// functions lists the network device functions of all interfaces.
func (c *conn) functions(interfaces string) ([]string, error) {
	paths, err := c.members(interfaces)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range paths {
		var nic networkInterfaceResource
		if err := c.get(path, &nic); err != nil {
			return nil, err
		}
		if nic.Functions.ID == "" {
			continue
		}
		functions, err := c.members(nic.Functions.ID)
		if err != nil {
			return nil, err
		}
		if all = append(all, functions...); len(all) > maxMembers {
			return nil, fmt.Errorf("%w: more than %d network functions", bmc.ErrProtocol, maxMembers)
		}
	}
	return all, nil
}

// collect reads the members: all of them, or none.
func collect(paths []string, get func(string) (macResource, error)) ([]macResource, error) {
	out := make([]macResource, 0, len(paths))
	for _, path := range paths {
		m, err := get(path)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// addresses are those of all that have one, sorted; nil: none has.
func addresses(of []macResource) []string {
	var macs []string
	for _, m := range of {
		if mac := m.address(); mac != "" {
			macs = append(macs, mac)
		}
	}
	slices.Sort(macs)
	return slices.Compact(macs)
}

// parseMAC reads a 6-byte unicast address in any of the usual forms.
func parseMAC(text string) (string, bool) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 || mac[0]&1 == 1 || mac.String() == "00:00:00:00:00:00" {
		return "", false
	}
	return mac.String(), true
}

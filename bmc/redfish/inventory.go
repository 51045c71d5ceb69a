// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
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

// Identity implements bmc.Inventorier. A field is empty if the BMC does not report it.
func (c *conn) Identity(ctx context.Context) (_ bmc.Identity, err error) {
	c.begin(ctx)
	defer wrap(&err, "read identity")
	system, err := c.readSystem()
	if err != nil {
		return bmc.Identity{}, err
	}
	return c.identity(system)
}

func (c *conn) identity(system *systemResource) (bmc.Identity, error) {
	id := bmc.Identity{
		SystemID:     cmp.Or(system.ID, c.system),
		UUID:         strings.ToLower(strings.TrimSpace(system.UUID)),
		Serial:       strings.TrimSpace(system.SerialNumber),
		Manufacturer: strings.TrimSpace(system.Manufacturer),
		Model:        strings.TrimSpace(system.Model),
	}
	manager, _, err := c.manager(system)
	if err != nil {
		return id, ignoreUnsupported(err)
	}
	id.BMCFirmware = strings.TrimSpace(manager.FirmwareVersion)
	id.BMCUUID = strings.ToLower(strings.TrimSpace(manager.UUID))
	return id, nil
}

// managerPath returns the manager of the system, or the first of all managers; empty: none.
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

// ignoreUnsupported drops the error if the BMC does not have what was read, or answers nonsense. Other
// errors stay: another try may succeed.
func ignoreUnsupported(err error) error {
	if errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrProtocol) {
		return nil
	}
	return err
}

// Inventory implements bmc.Inventorier. A slow read resumes, see resumable.
func (c *conn) Inventory(ctx context.Context) (inv bmc.Inventory, err error) {
	c.begin(ctx)
	defer wrap(&err, "read inventory")
	err = c.resumable(bmc.CallInventory, func() error { return c.readInventory(&inv) })
	return inv, err
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

// cores counts the physical cores from the summary (ComputerSystem v1.14 and later) or the
// processors; 0: unknown.
func (c *conn) cores(system *systemResource) (int32, error) {
	if n := system.ProcessorSummary.CoreCount; n > 0 || system.Processors.ID == "" {
		return max(n, 0), nil
	}
	processors, whole, err := c.resources(system.Processors.ID, maxMembers)
	if err != nil || !whole {
		return 0, ignoreUnsupported(err)
	}
	var sum int32
	for _, r := range processors {
		var p processorResource
		if err := r.into(&p); err != nil {
			return 0, ignoreUnsupported(err)
		}
		if p.Type == "" || p.Type == "CPU" {
			sum += min(max(p.Cores, 0), 1<<16)
		}
	}
	return sum, nil
}

// macs returns the MAC addresses of the network interfaces. Nil: the BMC does not report them, or
// not all of them, and the list would be incomplete (I8). BMCs list cards in up to three places,
// each possibly incomplete: EthernetInterfaces of the system, and the functions of the cards below
// its NetworkInterfaces or below the NetworkAdapters of its chassis. Lenovo's placeholder in
// EthernetInterfaces is not a card.
func (c *conn) macs(system *systemResource) ([]string, error) {
	var all []macResource
	if path := system.EthernetInterfaces.ID; path != "" {
		interfaces, whole, err := c.resources(path, maxMembers)
		if err != nil && !isMissing(err) || err == nil && !whole {
			return nil, ignoreUnsupported(err)
		}
		for _, r := range interfaces {
			var m macResource
			if err := r.into(&m); err != nil {
				return nil, ignoreUnsupported(err)
			}
			all = append(all, m)
		}
	}
	functions, whole, err := c.functions(system)
	if err != nil || !whole {
		return nil, ignoreUnsupported(err)
	}
	if all = append(all, functions...); !slices.ContainsFunc(all, macResource.serves) {
		return nil, nil
	}
	return addresses(all), nil
}

// cardCollections returns the collections of the system's network cards.
func (c *conn) cardCollections(system *systemResource) ([]string, error) {
	paths := []string{system.NetworkInterfaces.ID}
	for _, l := range system.Links.Chassis[:min(len(system.Links.Chassis), maxChassis)] {
		var chassis chassisResource
		if err := c.get(l.ID, &chassis); err != nil && !isMissing(err) {
			return nil, err
		}
		paths = append(paths, chassis.NetworkAdapters.ID)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" }), nil
}

// functions returns the network functions of all cards.
func (c *conn) functions(system *systemResource) (all []macResource, whole bool, _ error) {
	collections, err := c.cardCollections(system)
	if err != nil {
		return nil, false, err
	}
	seen := map[string]bool{"": true}
	for _, collection := range collections {
		cards, whole, err := c.resources(collection, maxMembers)
		if isMissing(err) {
			continue
		}
		if err != nil || !whole {
			return nil, false, err
		}
		for _, r := range cards {
			var card networkCardResource
			if err := r.into(&card); err != nil {
				return nil, false, err
			}
			if seen[card.Functions.ID] || seen[r.path] {
				continue // the chassis lists a card of the system again
			}
			seen[card.Functions.ID], seen[card.Links.Adapter.ID] = true, true
			functions, whole, err := c.resources(card.Functions.ID, maxMembers)
			if err != nil || !whole {
				return nil, false, err
			}
			for _, r := range functions {
				var f networkFunctionResource
				if err := r.into(&f); err != nil {
					return nil, false, err
				}
				all = append(all, f.Ethernet)
			}
			if len(all) > maxMembers {
				return nil, false, fmt.Errorf("%w: more than %d network functions", bmc.ErrProtocol, maxMembers)
			}
		}
	}
	return all, true, nil
}

// addresses returns the MAC addresses, sorted; nil if there are none.
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

// parseMAC parses a 6-byte unicast address in any of the usual forms.
func parseMAC(text string) (string, bool) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 || mac[0]&1 == 1 || mac.String() == "00:00:00:00:00:00" {
		return "", false
	}
	return mac.String(), true
}

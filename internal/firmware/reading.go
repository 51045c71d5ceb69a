// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// maxListed bounds the names in a message.
const maxListed = 20

// read reads the settings and versions that the host's spec names. Anything that the BMC does not
// support becomes part of the reading.
func (p *Preparer) read(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost) (*lifecycle.FirmwareReading, error) {
	settings, components := lifecycle.RequiredReading(host)
	reading := &lifecycle.FirmwareReading{Versions: map[string]string{}, IDs: map[string]string{}}
	if len(settings) > 0 {
		if err := p.readSettings(ctx, conn, settings, reading); err != nil {
			return nil, err
		}
	}
	if len(components) > 0 {
		if err := p.readVersions(ctx, conn, host, components, reading); err != nil {
			return nil, err
		}
	}
	return reading, nil
}

func (p *Preparer) readSettings(ctx context.Context, conn bmc.Conn, wanted map[string]string, reading *lifecycle.FirmwareReading) error {
	values, err := conn.Settings(ctx)
	if errors.Is(err, bmc.ErrNotSupported) {
		refuse(reading, infrav1.ReasonSettingsRejected, "the BMC does not support BIOS settings: "+p.Stable(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	pending, err := conn.PendingSettings(ctx)
	if err != nil && !errors.Is(err, bmc.ErrNotSupported) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		value, known := values[name]
		if !known {
			refuse(reading, infrav1.ReasonSettingsRejected, fmt.Sprintf("spec.bios.settings: this firmware has no setting %q%s", name, suggestName(name, values)))
			continue
		}
		next, changes := pending[name]
		if !changes {
			next = value
		}
		s := lifecycle.SettingReading{Name: name, Wanted: wanted[name], Value: value.String(), InForce: isValue(wanted[name], value), Next: isValue(wanted[name], next)}
		if next != value {
			s.Pending = next.String()
		}
		reading.Settings = append(reading.Settings, s)
	}
	return nil
}

// refuse records the first desired setting or version that this BMC cannot have.
func refuse(reading *lifecycle.FirmwareReading, reason, message string) {
	if reading.Refused == "" {
		reading.RefusedReason, reading.Refused = reason, message
	}
}

// suggestName names a setting that differs in case only.
func suggestName(name string, values map[string]bmc.Value) string {
	for _, known := range slices.Sorted(maps.Keys(values)) {
		if strings.EqualFold(known, name) {
			return fmt.Sprintf("; did you mean %q?", known)
		}
	}
	return ""
}

// isValue reports whether the text of the spec is the value.
func isValue(text string, value bmc.Value) bool {
	switch value.Kind {
	case bmc.ValueInteger:
		n, err := strconv.ParseInt(text, 10, 64)
		return err == nil && n == value.Int
	case bmc.ValueBoolean:
		b, err := strconv.ParseBool(text)
		return err == nil && b == value.Bool
	default:
		return text == value.Text
	}
}

func (p *Preparer) readVersions(ctx context.Context, conn bmc.Conn, host *infrav1.IngotHost, components []string, reading *lifecycle.FirmwareReading) error {
	items, err := conn.FirmwareInventory(ctx)
	if errors.Is(err, bmc.ErrNotSupported) {
		refuse(reading, infrav1.ReasonFirmwareRejected, "the BMC does not report its firmware: "+p.Stable(err.Error()))
		return nil
	}
	if err != nil {
		return err
	}
	if err := rereadItems(ctx, conn, items, components); err != nil {
		return err
	}
	ways, err := conn.UpdateMethods(ctx)
	if err != nil && !errors.Is(err, bmc.ErrNotSupported) {
		return err
	}
	reading.Ways = lifecycle.UpdateWays{Fetch: ways.Fetch, Protocols: ways.Protocols, Push: ways.Push}
	items = slices.DeleteFunc(items, notInstalled(items))
	isWanted := func(component string) bool {
		return slices.ContainsFunc(host.Spec.Firmware, func(f infrav1.FirmwareComponent) bool { return f.Component == component })
	}
	matched := map[string]string{} // component by the BMC's ID
	for _, component := range components {
		versions, names := map[string]bool{}, []string{}
		for _, item := range items {
			if !lifecycle.MatchesComponent(component, item.ID, item.Name) {
				continue
			}
			versions[item.Version] = true
			names = append(names, strconv.Quote(lifecycle.StableComponentName(item.ID)))
			reading.IDs[component] = item.ID
			if other := matched[item.ID]; isWanted(other) && isWanted(component) { // its two versions would be installed in turn, forever
				refuse(reading, infrav1.ReasonFirmwareRejected, fmt.Sprintf("spec.firmware: %q and %q are the same firmware; remove one of them", other, component))
			}
			matched[item.ID] = component
		}
		switch found := slices.Sorted(maps.Keys(versions)); {
		case len(found) == 1:
			reading.Versions[component] = found[0]
		case !isWanted(component): // a running update that the spec no longer names
		case len(found) == 0:
			refuse(reading, infrav1.ReasonFirmwareRejected, fmt.Sprintf("spec.firmware: the BMC has no firmware %q; it has %s", component, listItems(items)))
		default:
			refuse(reading, infrav1.ReasonFirmwareRejected, fmt.Sprintf("spec.firmware: %q matches several firmwares with versions %s; name one of %s",
				component, strings.Join(found, ", "), joinNames(names)))
		}
	}
	return nil
}

// rereadItems reads again the relevant items of an inventory that was read in parts: an update is
// decided on what is installed now. If the BMC no longer has an item, which may be named by its
// version, the whole inventory is read again later.
func rereadItems(ctx context.Context, conn bmc.Conn, items []bmc.FirmwareItem, components []string) error {
	reader, can := conn.(bmc.FirmwareReader)
	for i, item := range items {
		if !can || !item.FromEarlierRead || !slices.ContainsFunc(components, func(c string) bool { return lifecycle.MatchesComponent(c, item.ID, item.Name) }) {
			continue
		}
		now, err := reader.FirmwareItem(ctx, item.ID)
		if errors.Is(err, bmc.ErrNotSupported) {
			return fmt.Errorf("%w: %s disappeared while the inventory was read", bmc.ErrBusy, item.ID)
		}
		if err != nil {
			return err
		}
		items[i] = now
	}
	return nil
}

// notInstalled returns a function that reports whether an item of Dell's inventory is not the
// installed firmware: the earlier version, an available one, or the one that runs until the next
// start if the installed one is listed too. The ID tells
// (github.com/dell/iDRAC-Redfish-Scripting issue 264).
func notInstalled(items []bmc.FirmwareItem) func(bmc.FirmwareItem) bool {
	is := func(item bmc.FirmwareItem, prefix string) bool {
		return strings.HasPrefix(item.ID[strings.LastIndex(item.ID, "/")+1:], prefix)
	}
	installed := map[string]bool{}
	for _, item := range items {
		if is(item, "Installed-") {
			installed[item.Name] = true
		}
	}
	return func(item bmc.FirmwareItem) bool {
		return is(item, "Previous-") || is(item, "Available-") || is(item, "Current-") && installed[item.Name]
	}
}

func listItems(items []bmc.FirmwareItem) string {
	var names []string
	for _, item := range items {
		if name := fmt.Sprintf("%q", item.Name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return joinNames(names)
}

func joinNames(names []string) string {
	if len(names) > maxListed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

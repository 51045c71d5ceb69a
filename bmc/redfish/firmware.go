// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// maxFirmware bounds the items of an inventory; iDRAC lists up to about 100.
const maxFirmware = 150

// updateServiceResource is UpdateService (DSP2046).
type updateServiceResource struct {
	Inventory link `json:"FirmwareInventory"`
	// PushURI takes an image with parameters, PlainPushURI only an image.
	PushURI      string `json:"MultipartHttpPushUri"`
	PlainPushURI string `json:"HttpPushUri"`
	Actions      struct {
		Simple *simpleUpdateAction `json:"#UpdateService.SimpleUpdate"`
	} `json:"Actions"`
}

type simpleUpdateAction struct {
	Target    string   `json:"target"`
	Protocols []string `json:"TransferProtocol@Redfish.AllowableValues"`
	Types     []string `json:"TransferProtocolType@Redfish.AllowableValues"`
}

// maxProtocols bounds the protocols of SimpleUpdate; DSP2046 has 10.
const maxProtocols = 20

type firmwareResource struct {
	Name       string `json:"Name"`
	Version    string `json:"Version"`
	Updateable bool   `json:"Updateable"`
}

func (c *conn) updateService() (updateServiceResource, error) {
	var service updateServiceResource
	if c.root.UpdateService.ID == "" {
		return service, notSupported("the BMC has no UpdateService")
	}
	err := c.get(c.root.UpdateService.ID, &service)
	return service, err
}

// FirmwareInventory implements bmc.Firmware. It leaves out an item that the BMC lists but does not
// have. If an item cannot be read now, the call fails, since a list without that item would
// mean that it does not exist. A slow read resumes, see resumable.
func (c *conn) FirmwareInventory(ctx context.Context) (items []bmc.FirmwareItem, err error) {
	c.begin(ctx)
	defer wrap(&err, "read firmware inventory")
	err = c.resumable(bmc.CallFirmwareInventory, func() (err error) { items, err = c.readFirmware(); return err })
	return items, err
}

func (c *conn) readFirmware() ([]bmc.FirmwareItem, error) {
	service, err := c.updateService()
	if err != nil {
		return nil, err
	}
	if service.Inventory.ID == "" {
		return nil, notSupported("the UpdateService has no FirmwareInventory")
	}
	all, _, err := c.resources(service.Inventory.ID, maxFirmware)
	if err != nil {
		return nil, err
	}
	items := make([]bmc.FirmwareItem, 0, len(all))
	for _, r := range all {
		var f firmwareResource
		if r.into(&f) != nil {
			continue
		}
		item := f.item(r.path)
		item.FromEarlierRead = c.reading.readBefore(r.from)
		items = append(items, item)
	}
	return items, nil
}

// FirmwareItem implements bmc.FirmwareReader.
func (c *conn) FirmwareItem(ctx context.Context, id string) (bmc.FirmwareItem, error) {
	c.begin(ctx)
	var f firmwareResource
	if err := c.get(id, &f); err != nil {
		return bmc.FirmwareItem{}, fmt.Errorf("read firmware: %w", err)
	}
	return f.item(id), nil
}

func (f firmwareResource) item(id string) bmc.FirmwareItem {
	return bmc.FirmwareItem{ID: id, Name: f.Name, Version: f.Version, Updateable: f.Updateable}
}

// UpdateMethods implements bmc.Firmware.
func (c *conn) UpdateMethods(ctx context.Context) (bmc.UpdateMethods, error) {
	c.begin(ctx)
	service, err := c.updateService()
	if err != nil {
		return bmc.UpdateMethods{}, fmt.Errorf("read update service: %w", err)
	}
	way, err := c.pushWay(service, 0)
	if err != nil {
		return bmc.UpdateMethods{}, fmt.Errorf("read vendor of the BMC: %w", err)
	}
	ways := bmc.UpdateMethods{Push: way != ""}
	if service.Actions.Simple != nil && service.Actions.Simple.Target != "" {
		ways.Fetch, ways.Protocols = true, c.protocols(service.Actions.Simple)
	}
	return ways, nil
}

// protocols returns the protocols by which the BMC fetches images; empty: it lists none.
func (c *conn) protocols(a *simpleUpdateAction) []string {
	all := slices.Concat(a.Types, a.Protocols)
	for i := range all {
		all[i] = strings.ToUpper(c.short(all[i], 20))
	}
	return all[:min(len(all), maxProtocols)]
}

// UpdateFirmware implements bmc.Firmware. It sends no If-Match: the action changes no resource,
// and iDRAC answers 412 (field notes).
func (c *conn) UpdateFirmware(ctx context.Context, update bmc.Update) (_ bmc.Task, err error) {
	c.begin(ctx)
	defer wrap(&err, "update firmware")
	if (update.URL == "") == (update.Image == nil) {
		return bmc.Task{}, errors.New("need either a URL or an image")
	}
	service, err := c.updateService()
	if err != nil {
		return bmc.Task{}, err
	}
	if update.URL != "" {
		return c.simpleUpdate(service, update)
	}
	return c.push(service, update)
}

func (c *conn) simpleUpdate(service updateServiceResource, update bmc.Update) (bmc.Task, error) {
	action := service.Actions.Simple
	if action == nil || action.Target == "" {
		return bmc.Task{}, notSupported("no SimpleUpdate action; the image has to be pushed")
	}
	body := map[string]any{"ImageURI": update.URL}
	scheme, _, _ := strings.Cut(update.URL, ":")
	protocol := strings.ToUpper(scheme)
	if allowed := c.protocols(action); len(allowed) == 0 || slices.Contains(allowed, protocol) {
		body["TransferProtocol"] = protocol
	} else {
		return bmc.Task{}, notSupported(fmt.Sprintf("the BMC fetches by %s, not by %s", c.short(strings.Join(allowed, ", "), 200), bmc.Shorten(protocol, 20)))
	}
	if len(update.Targets) > 0 {
		body["Targets"] = update.Targets
	}
	c.secrets = append(c.secrets, bmc.QuerySecrets(update.URL)...) // the task may repeat them
	a, err := c.sendAndRead(http.MethodPost, action.Target, body, nil)
	if err != nil {
		return bmc.Task{}, err
	}
	return taskOf(a), nil
}

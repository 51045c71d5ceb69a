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

// maxFirmware bounds the items of an inventory; iDRACs list up to about 100.
const maxFirmware = 150

// updateServiceResource is UpdateService (DSP2046).
type updateServiceResource struct {
	Inventory link `json:"FirmwareInventory"`
	// PushURI takes an image with parameters, PlainPushURI one alone.
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

// maxProtocols bounds those that are listed; DSP2046 has 10.
const maxProtocols = 20

type firmwareResource struct {
	Name       string `json:"Name"`
	Version    string `json:"Version"`
	Updateable bool   `json:"Updateable"`
}

func (c *conn) updateService() (updateServiceResource, error) {
	var service updateServiceResource
	if c.root.UpdateService.ID == "" {
		return service, lacking("the BMC has no UpdateService")
	}
	err := c.get(c.root.UpdateService.ID, &service)
	return service, err
}

// FirmwareInventory implements bmc.Firmware. An item that the BMC lists and does not have is
// left out; one that it cannot tell now ends the reading, since a list without that item would
// say that there is none. It is read in parts, see inParts.
func (c *conn) FirmwareInventory(ctx context.Context) ([]bmc.FirmwareItem, error) {
	c.begin(ctx)
	var items []bmc.FirmwareItem
	err := c.inParts(bmc.CallFirmwareInventory, func() (err error) { items, err = c.readFirmware(); return err })
	if err != nil {
		return nil, fmt.Errorf("read firmware inventory: %w", err)
	}
	return items, nil
}

func (c *conn) readFirmware() ([]bmc.FirmwareItem, error) {
	service, err := c.updateService()
	if err != nil {
		return nil, err
	}
	if service.Inventory.ID == "" {
		return nil, lacking("no FirmwareInventory")
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
		item.Earlier = c.reading.earlier(r.from)
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

// UpdateWays implements bmc.Firmware.
func (c *conn) UpdateWays(ctx context.Context) (bmc.UpdateWays, error) {
	c.begin(ctx)
	service, err := c.updateService()
	if err != nil {
		return bmc.UpdateWays{}, fmt.Errorf("read update service: %w", err)
	}
	way, err := c.pushWay(service, 0)
	if err != nil {
		return bmc.UpdateWays{}, fmt.Errorf("read who made the BMC: %w", err)
	}
	ways := bmc.UpdateWays{Push: way != ""}
	if service.Actions.Simple != nil && service.Actions.Simple.Target != "" {
		ways.Fetch, ways.Protocols = true, c.protocols(service.Actions.Simple)
	}
	return ways, nil
}

// protocols by which the BMC fetches; none: it does not say.
func (c *conn) protocols(a *simpleUpdateAction) []string {
	all := slices.Concat(a.Types, a.Protocols)
	for i := range all {
		all[i] = strings.ToUpper(c.short(all[i], 20))
	}
	return all[:min(len(all), maxProtocols)]
}

// UpdateFirmware implements bmc.Firmware. No If-Match is sent: the action changes
// no resource, and iDRACs answer 412 to one (field notes).
func (c *conn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	c.begin(ctx)
	var (
		task    bmc.Task
		service updateServiceResource
		err     error
	)
	if (update.URL == "") == (update.Image == nil) {
		err = errors.New("exactly one of URL and image is wanted")
	} else {
		service, err = c.updateService()
	}
	switch {
	case err != nil:
	case update.URL != "":
		task, err = c.simpleUpdate(service, update)
	default:
		task, err = c.push(service, update)
	}
	if err != nil {
		return bmc.Task{}, fmt.Errorf("update firmware: %w", err)
	}
	return task, nil
}

func (c *conn) simpleUpdate(service updateServiceResource, update bmc.Update) (bmc.Task, error) {
	action := service.Actions.Simple
	if action == nil || action.Target == "" {
		return bmc.Task{}, lacking("no SimpleUpdate: the image has to be pushed")
	}
	body := map[string]any{"ImageURI": update.URL}
	scheme, _, _ := strings.Cut(update.URL, ":")
	protocol := strings.ToUpper(scheme)
	if allowed := c.protocols(action); len(allowed) == 0 || slices.Contains(allowed, protocol) {
		body["TransferProtocol"] = protocol
	} else {
		return bmc.Task{}, lacking(fmt.Sprintf("wants %s, the BMC fetches by %s", bmc.Shorten(protocol, 20), c.short(strings.Join(allowed, ", "), 200)))
	}
	if len(update.Targets) > 0 {
		body["Targets"] = update.Targets
	}
	c.secrets = append(c.secrets, bmc.QuerySecrets(update.URL)...) // its task may repeat them, too
	a, err := c.ask(http.MethodPost, action.Target, body, nil)
	if err != nil {
		return bmc.Task{}, err
	}
	return taskOf(a), nil
}

// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/common"

	"github.com/ingot-metal/ingot/bmc"
)

// maxFirmware bounds the items of an inventory; iDRACs list up to about 100.
const maxFirmware = 150

// updateServiceResource is UpdateService (DSP2046).
type updateServiceResource struct {
	Inventory link   `json:"FirmwareInventory"`
	PushURI   string `json:"MultipartHttpPushUri"`
	Actions   struct {
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

// FirmwareInventory implements bmc.Firmware. An item that the BMC lists and cannot
// tell is left out.
func (c *conn) FirmwareInventory(ctx context.Context) ([]bmc.FirmwareItem, error) {
	c.transport.begin(ctx)
	fail := func(err error) ([]bmc.FirmwareItem, error) {
		return nil, fmt.Errorf("read firmware inventory: %w", err)
	}
	service, err := c.updateService()
	if err != nil {
		return fail(err)
	}
	if service.Inventory.ID == "" {
		return fail(lacking("no FirmwareInventory"))
	}
	paths, err := c.membersUpTo(service.Inventory.ID, maxFirmware)
	if err != nil {
		return fail(err)
	}
	items := make([]bmc.FirmwareItem, 0, len(paths))
	for _, path := range paths {
		var f firmwareResource
		if err := c.get(path, &f); err != nil {
			if err := optional(err); err != nil {
				return fail(err)
			}
			continue
		}
		items = append(items, bmc.FirmwareItem{ID: path, Name: f.Name, Version: f.Version, Updateable: f.Updateable})
	}
	return items, nil
}

// UpdateWays implements bmc.Firmware. HttpPushUri is none of them: what is sent there is
// each maker's own (DSP2046).
func (c *conn) UpdateWays(ctx context.Context) (bmc.UpdateWays, error) {
	c.transport.begin(ctx)
	service, err := c.updateService()
	if err != nil {
		return bmc.UpdateWays{}, fmt.Errorf("read update service: %w", err)
	}
	ways := bmc.UpdateWays{Push: isLink(service.PushURI)}
	if service.Actions.Simple != nil && service.Actions.Simple.Target != "" {
		ways.Fetch, ways.Protocols = true, service.Actions.Simple.protocols()
	}
	return ways, nil
}

// protocols by which the BMC fetches; none: it does not say.
func (a *simpleUpdateAction) protocols() []string {
	all := slices.Concat(a.Types, a.Protocols)
	for i := range all {
		all[i] = shorten(strings.ToUpper(all[i]), 20)
	}
	return all[:min(len(all), maxProtocols)]
}

// UpdateFirmware implements bmc.Firmware. No If-Match is sent: the action changes
// no resource, and iDRACs answer 412 to one (field notes).
func (c *conn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	c.transport.begin(ctx)
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
	if allowed := action.protocols(); len(allowed) == 0 || slices.Contains(allowed, protocol) {
		body["TransferProtocol"] = protocol
	} else {
		return bmc.Task{}, lacking(fmt.Sprintf("wants %s, the BMC fetches by %s", shorten(protocol, 20), shorten(strings.Join(allowed, ", "), 200)))
	}
	if len(update.Targets) > 0 {
		body["Targets"] = update.Targets
	}
	a, err := c.ask(http.MethodPost, action.Target, body, nil)
	if err != nil {
		return bmc.Task{}, err
	}
	return taskOf(a), nil
}

// push streams the image (DSP0266, multipart HTTP push updates). gofish would
// hold all of it in memory.
func (c *conn) push(service updateServiceResource, update bmc.Update) (bmc.Task, error) {
	if service.PushURI == "" {
		return bmc.Task{}, lacking("no MultipartHttpPushUri: the BMC has to fetch the image")
	}
	what := "push to " + shorten(service.PushURI, 200)
	if !isLink(service.PushURI) {
		return bmc.Task{}, fmt.Errorf("%s: %w: not a path of this BMC", c.clean(what), bmc.ErrProtocol)
	}
	body, length, contentType, err := multipartBody(update)
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w", c.clean(what), err)
	}
	// The transport gives the request the call's context.
	r, err := http.NewRequestWithContext(c.transport.ctx, http.MethodPost, c.base+service.PushURI, body)
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w: not a path of this BMC", c.clean(what), bmc.ErrProtocol)
	}
	r.ContentLength = length
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	resp, err := c.client.HTTPClient.Do(r)
	if err != nil {
		return bmc.Task{}, c.failure(write, what, err)
	}
	a := c.answered(resp)
	if a.status < 200 || a.status > 299 {
		return bmc.Task{}, c.failure(write, what, common.ConstructError(a.status, a.body))
	}
	return taskOf(a), nil
}

// multipartBody is the two parts, the image as it is read. Its length is -1 where
// the image's size is not known; many BMCs do not take that.
func multipartBody(update bmc.Update) (body io.Reader, length int64, contentType string, err error) {
	parameters := map[string]any{"Targets": update.Targets}
	if update.Targets == nil {
		parameters["Targets"] = []string{}
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return nil, 0, "", err
	}
	var head bytes.Buffer
	w := multipart.NewWriter(&head)
	part := func(disposition, kind string) (io.Writer, error) {
		return w.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {kind}})
	}
	p, err := part(`form-data; name="UpdateParameters"`, "application/json")
	if err == nil {
		_, err = p.Write(text)
	}
	if err == nil {
		name := strings.Map(plainRune, update.Filename)
		if name == "" {
			name = "firmware.bin"
		}
		_, err = part(`form-data; name="UpdateFile"; filename="`+name+`"`, "application/octet-stream")
	}
	if err != nil {
		return nil, 0, "", err
	}
	tail := "\r\n--" + w.Boundary() + "--\r\n"
	length = -1
	if update.Size > 0 {
		length = int64(head.Len()) + update.Size + int64(len(tail))
	}
	return io.MultiReader(&head, update.Image, strings.NewReader(tail)), length, w.FormDataContentType(), nil
}

// plainRune keeps what needs no quoting in a header.
func plainRune(r rune) rune {
	if r > ' ' && r < 0x7f && r != '"' && r != '\\' && r != '/' {
		return r
	}
	return -1
}

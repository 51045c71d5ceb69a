// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/stmcginnis/gofish/common"

	"github.com/ingot-metal/ingot/bmc"
)

// pushWay is how a BMC accepts a pushed image; empty: not at all.
type pushWay string

const (
	// pushMultipart is MultipartHttpPushUri (DSP0266, multipart HTTP push updates).
	pushMultipart pushWay = "MultipartHttpPushUri"
	// pushPlain is HttpPushUri, which takes only the image (DSP2062, HTTP push updates). DSP2046
	// leaves the format to the vendors; most use this one.
	pushPlain pushWay = "HttpPushUri"
	// pushForm is HttpPushUri of older iDRACs.
	pushForm pushWay = "HttpPushUri, a form"
)

// oneTarget is the multipart path of OpenBMC's bmcweb, which requires exactly one target and
// answers 400 without one (extractMultipartUpdateParameters). Only the path identifies bmcweb: the
// root names no vendor, and the system names the vendor of the board.
const oneTarget = "/redfish/v1/UpdateService/update-multipart"

// pushWay returns how to push an image with a number of targets. It prefers the newer way, unless
// that requires a target and there is none.
func (c *conn) pushWay(service updateServiceResource, targets int) (pushWay, error) {
	multipart, plain := isLink(service.PushURI), isLink(service.PlainPushURI)
	switch {
	case multipart && (!plain || targets > 0 || service.PushURI != oneTarget):
		return pushMultipart, nil
	case !plain:
		return "", nil
	}
	if strings.TrimSpace(c.root.Vendor) == "" { // older BMCs name the vendor only in the system
		if _, err := c.systemForWrite(); err != nil {
			return "", err
		}
	}
	switch {
	case c.has(pushIsOwn):
		return "", nil
	case c.has(pushAsForm):
		return pushForm, nil
	}
	return pushPlain, nil
}

// push streams the image; gofish would hold it in memory.
func (c *conn) push(service updateServiceResource, update bmc.Update) (bmc.Task, error) {
	way, err := c.pushWay(service, len(update.Targets))
	switch {
	case err != nil:
		return bmc.Task{}, err
	case way == "" && service.PushURI != "":
		return bmc.Task{}, fmt.Errorf("push to %s: %w: not a path of this BMC", c.short(service.PushURI, 200), bmc.ErrProtocol)
	case way == "":
		return bmc.Task{}, notSupported("no MultipartHttpPushUri, and no HttpPushUri of a known format; the BMC has to fetch the image")
	case way != pushMultipart && len(update.Targets) > 0:
		return bmc.Task{}, notSupported("HttpPushUri takes no targets; the image determines them")
	}
	switch way {
	case pushPlain:
		length := int64(-1)
		if update.Size > 0 {
			length = update.Size
		}
		a, err := c.stream(service.PlainPushURI, streamed{body: update.Image, length: length, contentType: "application/octet-stream"})
		return taskOf(a), err
	case pushForm:
		return c.pushForm(service, update)
	}
	if update.Targets, err = c.targets(service, update); err != nil {
		return bmc.Task{}, err
	}
	parts, err := multipartBody(update)
	if err != nil {
		return bmc.Task{}, err
	}
	a, err := c.stream(service.PushURI, parts)
	if err != nil {
		return bmc.Task{}, err
	}
	return taskOf(a), nil
}

// targets returns the targets of a multipart push: those of the update. If there are none and the
// BMC requires one, it is the firmware item or else the manager, which these BMCs all accept.
func (c *conn) targets(service updateServiceResource, update bmc.Update) ([]string, error) {
	switch {
	case len(update.Targets) > 0 || service.PushURI != oneTarget:
		return update.Targets, nil
	case isLink(update.Component):
		return []string{update.Component}, nil
	}
	system, err := c.systemForWrite()
	if err != nil {
		return nil, err
	}
	manager, err := c.managerPath(system)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	case manager == "":
		return nil, notSupported("the BMC requires a target for an image, and has no manager")
	}
	return []string{manager}, nil
}

// pushForm pushes the image to an older iDRAC, which stores it, and then has the iDRAC install it.
// The iDRAC refuses the form without the ETag of the inventory.
func (c *conn) pushForm(service updateServiceResource, update bmc.Update) (bmc.Task, error) {
	action := service.Actions.Simple
	if action == nil || action.Target == "" {
		return bmc.Task{}, notSupported("no SimpleUpdate action, which would install the pushed image")
	}
	var inventory struct{}
	if err := c.get(service.PlainPushURI, &inventory); err != nil {
		return bmc.Task{}, fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	}
	tag := c.transport.last.etag
	form := newParts()
	form.add(`form-data; name="file"; filename="`+pushedName(update)+`"`, "application/octet-stream", nil)
	what, err := form.around(update)
	if err != nil {
		return bmc.Task{}, err
	}
	if tag != "" {
		what.header = map[string]string{"If-Match": c.tagFor(tag)}
	}
	kept, err := c.stream(service.PlainPushURI, what)
	if err != nil {
		return bmc.Task{}, err
	}
	if !isLink(kept.location) {
		return bmc.Task{}, fmt.Errorf("push to %s: %w: the answer has no location of the image", c.short(service.PlainPushURI, 200), bmc.ErrProtocol)
	}
	// No If-Match: see UpdateFirmware.
	a, err := c.sendAndRead(http.MethodPost, action.Target, map[string]any{"ImageURI": kept.location}, nil)
	if err != nil {
		return bmc.Task{}, err
	}
	return taskOf(a), nil
}

// streamed is the body of a push.
type streamed struct {
	body io.Reader
	// length in bytes; -1: unknown, which many BMCs do not accept.
	length      int64
	contentType string
	header      map[string]string
}

// stream sends an image in one write.
func (c *conn) stream(path string, s streamed) (answer, error) {
	c.unfinished = nil // the write changes what was read
	what := "push to " + c.short(path, 200)
	// The transport sets the context of the call.
	r, err := http.NewRequestWithContext(c.transport.ctx, http.MethodPost, c.base+path, s.body)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w: not a path of this BMC", c.clean(what), bmc.ErrProtocol)
	}
	r.ContentLength = s.length
	r.Header.Set("Content-Type", s.contentType)
	r.Header.Set("Accept", "application/json")
	for name, value := range s.header {
		r.Header.Set(name, value)
	}
	resp, err := c.client.HTTPClient.Do(r)
	if err != nil {
		return answer{}, c.failure(write, what, err)
	}
	a := c.readAnswer(resp)
	if a.status < 200 || a.status > 299 {
		return answer{}, c.failure(write, what, common.ConstructError(a.status, a.body))
	}
	return a, nil
}

// multipartBody returns the two parts of the standard. The image is read while it is sent.
func multipartBody(update bmc.Update) (streamed, error) {
	parameters := map[string]any{"Targets": update.Targets}
	if update.Targets == nil {
		parameters["Targets"] = []string{}
	}
	text, err := json.Marshal(parameters)
	if err != nil {
		return streamed{}, err
	}
	form := newParts()
	form.add(`form-data; name="UpdateParameters"`, "application/json", text)
	form.add(`form-data; name="UpdateFile"; filename="`+pushedName(update)+`"`, "application/octet-stream", nil)
	return form.around(update)
}

// parts is a form up to the image in its last part.
type parts struct {
	head bytes.Buffer
	form *multipart.Writer
	err  error
}

func newParts() *parts {
	p := &parts{}
	p.form = multipart.NewWriter(&p.head)
	return p
}

func (p *parts) add(disposition, kind string, content []byte) {
	if p.err != nil {
		return
	}
	var part io.Writer
	part, p.err = p.form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}, "Content-Type": {kind}})
	if p.err == nil {
		_, p.err = part.Write(content)
	}
}

// around returns the form with the image in its last part.
func (p *parts) around(update bmc.Update) (streamed, error) {
	tail := "\r\n--" + p.form.Boundary() + "--\r\n"
	length := int64(-1)
	if update.Size > 0 {
		length = int64(p.head.Len()) + update.Size + int64(len(tail))
	}
	return streamed{
		body: io.MultiReader(&p.head, update.Image, strings.NewReader(tail)), length: length, contentType: p.form.FormDataContentType(),
	}, p.err
}

// pushedName returns the file name without characters that a header would have to quote.
func pushedName(update bmc.Update) string {
	if name := strings.Map(plainRune, update.Filename); name != "" {
		return name
	}
	return "firmware.bin"
}

// plainRune keeps what needs no quoting in a header.
func plainRune(r rune) rune {
	if r > ' ' && r < 0x7f && r != '"' && r != '\\' && r != '/' {
		return r
	}
	return -1
}
